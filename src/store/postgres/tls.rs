//! TLS on the way to the database. A server on another machine is spoken to over TLS alone, and its
//! certificate is checked, name included, whatever word of `sslmode` asks for TLS.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::cause::PostgresCause;
use crate::store::StoreError;

const DOING: &str = "preparing TLS for the database";

/// Settles whether `config` uses TLS, and makes what it takes. Without a file of root certificates
/// those of the machine count.
pub(super) fn connector(
    config: &mut Config,
    roots: Option<&Path>,
) -> Result<MakeRustlsConnect, StoreError> {
    if config.get_ssl_mode() == SslMode::Prefer {
        config.ssl_mode(if is_this_machine(config) { SslMode::Disable } else { SslMode::Require });
    }
    let failed = |text| move || PostgresCause::own(text).failed(DOING);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| failed("no TLS version is usable")())?;
    let builder = match (config.get_ssl_mode(), roots) {
        (SslMode::Disable, _) => builder.with_root_certificates(RootCertStore::empty()),
        (_, Some(roots)) => {
            let unreadable =
                failed("`store.root_certificates` is no readable PEM file of certificates");
            builder.with_root_certificates(read(roots).ok_or_else(unreadable)?)
        }
        (_, None) => builder
            .with_platform_verifier()
            .map_err(|_| failed("the machine's root certificates cannot be read")())?,
    };
    Ok(MakeRustlsConnect::new(builder.with_no_client_auth()))
}

/// The certificates of a PEM file; `None` unless all of it can be read and there is one.
fn read(path: &Path) -> Option<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).ok()? {
        store.add(certificate.ok()?).ok()?;
    }
    (!store.is_empty()).then_some(store)
}

fn is_this_machine(config: &Config) -> bool {
    let local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) if name == "localhost" => true,
        Host::Tcp(name) => name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
    };
    config.get_hosts().iter().all(local) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the connector would use TLS at that address.
    #[track_caller]
    fn check(address: &str, expected: SslMode) {
        let mut config: Config = address.parse().unwrap();
        let certificates = tempfile::NamedTempFile::new().unwrap();
        let made = connector(&mut config, Some(certificates.path()));
        // An empty file has no root certificate, which matters only where TLS is used.
        assert_eq!(made.is_ok(), expected == SslMode::Disable, "{address}");
        assert_eq!(config.get_ssl_mode(), expected, "{address}");
    }

    #[test]
    fn another_machine_is_spoken_to_over_tls() {
        check("postgres://u@localhost/db", SslMode::Disable);
        check("postgres://u@127.0.0.1:5433/db", SslMode::Disable);
        check("postgres://u@[::1]/db", SslMode::Disable);
        check("host=/var/run/postgresql user=u", SslMode::Disable);
        check("postgres://u@db.example.org/db", SslMode::Require);
        check("postgres://u@localhost,db.example.org/db", SslMode::Require);
        check("host=localhost hostaddr=192.0.2.7 user=u", SslMode::Require);
        check("postgres://u@localhost/db?sslmode=require", SslMode::Require);
        check("postgres://u@db.example.org/db?sslmode=disable", SslMode::Disable);
    }
}
