//! `approver serve` on PostgreSQL, over TLS.

use std::path::Path;
use std::process::Command;

use secrecy::ExposeSecret;
use tokio::task::block_in_place;

use super::{K1, Running, approver};
use crate::store::place::PostgresPlace;
use crate::store::proxy::TlsServer;

/// A service on the database of `place` behind `server`, which `roots` are to vouch for.
fn command(folder: &Path, place: &PostgresPlace, port: u16, roots: &Path) -> Command {
    let url = place.url_at("127.0.0.1", port);
    let roots = format!("store.root_certificates={}", roots.display());
    let mut command = approver(folder, &["serve", "--listen", "127.0.0.1:0", "--set", &roots]);
    command.env("APPROVER_KEYS_ROOT", K1);
    command.env("APPROVER_STORE_URL", format!("{}?sslmode=verify-full", url.expose_secret()));
    command
}

/// Why it does not start.
#[track_caller]
fn refused(mut command: Command) -> String {
    let output = block_in_place(|| command.output()).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("cannot open the store on PostgreSQL"), "{errors}");
    assert!(!errors.contains("postgres://"), "{errors}");
    errors
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_starts_on_a_database_whose_certificate_is_vouched_for() {
    let folder = tempfile::tempdir().unwrap();
    let place = PostgresPlace::new().await;
    let server = TlsServer::start(place.address()).await;
    let with = |port: u16, roots: &Path| command(folder.path(), &place, port, roots);
    let running = block_in_place(|| Running::start(&mut with(server.port(), server.certificate())));
    let ready = block_in_place(|| running.get("/readyz", ""));
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains(r#""store":"ok""#), "{ready}");
    running.signal("-TERM");
    let (code, log) = block_in_place(|| running.ended());
    assert_eq!(code, Some(0), "{log}");

    // Another authority than the one that signed it.
    let other = TlsServer::start(place.address()).await;
    let errors = refused(with(server.port(), other.certificate()));
    assert!(errors.contains("certificate is not accepted"), "{errors}");
    assert!(errors.contains("`store.root_certificates`"), "{errors}");
    // The right one, of a server that has another name.
    let elsewhere = TlsServer::named("db.example.org", place.address()).await;
    let errors = refused(with(elsewhere.port(), elsewhere.certificate()));
    assert!(errors.contains("another name than the host in `store.url`"), "{errors}");
    assert!(!errors.contains("db.example.org"), "{errors}");
    // A file that is none.
    let prose = folder.path().join("prose.pem");
    std::fs::write(&prose, "no certificate").unwrap();
    for roots in [prose, folder.path().join("missing.pem")] {
        let errors = refused(with(server.port(), &roots));
        assert!(errors.contains("`store.root_certificates` is no readable PEM file"), "{errors}");
    }
    place.remove().await;
}
