//! A network that fails on demand, between a store and its database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_rustls::TlsAcceptor;

/// Passes connections on until it is told to cut them.
pub(crate) struct Proxy {
    port: u16,
    cut: broadcast::Sender<()>,
    refuse: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) async fn start(target: (String, u16)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, _) = broadcast::channel(1);
        let refuse = Arc::new(AtomicBool::new(false));
        let (cuts, refused) = (cut.clone(), Arc::clone(&refuse));
        tokio::spawn(async move {
            loop {
                let Ok((mut inside, _)) = listener.accept().await else { return };
                if refused.load(Ordering::Relaxed) {
                    continue;
                }
                let (mut cut, target) = (cuts.subscribe(), target.clone());
                tokio::spawn(async move {
                    let Ok(mut outside) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut inside, &mut outside) => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Self { port, cut, refuse }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends every connection in the middle of whatever it carries.
    pub(crate) fn cut(&self) {
        let _nobody_connected = self.cut.send(());
    }

    /// Whether new connections are ended at once.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuse.store(refuse, Ordering::Relaxed);
    }
}

/// A database server that speaks TLS, under a certificate of its own making.
pub(crate) struct TlsServer {
    port: u16,
    certificate: NamedTempFile,
}

impl TlsServer {
    /// Speaks TLS with whoever asks for it, and passes on what comes to `target`.
    pub(crate) async fn start(target: (String, u16)) -> Self {
        Self::named("127.0.0.1", target).await
    }

    /// The same with a certificate for another name.
    pub(crate) async fn named(name: &str, target: (String, u16)) -> Self {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let certificate = NamedTempFile::new().unwrap();
        std::fs::write(certificate.path(), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                let (acceptor, target) = (acceptor.clone(), target.clone());
                tokio::spawn(async move {
                    // PostgreSQL's request for TLS, and its answer.
                    let mut request = [0; 8];
                    inside.read_exact(&mut request).await.ok()?;
                    assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
                    inside.write_all(b"S").await.ok()?;
                    let mut inside = acceptor.accept(inside).await.ok()?;
                    let mut outside = TcpStream::connect(target).await.ok()?;
                    copy_bidirectional(&mut inside, &mut outside).await.ok()
                });
            }
        });
        Self { port, certificate }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A PEM file with its certificate.
    pub(crate) fn certificate(&self) -> &Path {
        self.certificate.path()
    }
}
