//! A network that fails on demand, between a store and its database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

/// Passes connections on until it is told to cut them.
pub(super) struct Proxy {
    port: u16,
    cut: broadcast::Sender<()>,
    refuse: Arc<AtomicBool>,
}

impl Proxy {
    pub(super) async fn start(target: (String, u16)) -> Self {
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

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Ends every connection in the middle of whatever it carries.
    pub(super) fn cut(&self) {
        let _nobody_connected = self.cut.send(());
    }

    /// Whether new connections are ended at once.
    pub(super) fn refuse(&self, refuse: bool) {
        self.refuse.store(refuse, Ordering::Relaxed);
    }
}
