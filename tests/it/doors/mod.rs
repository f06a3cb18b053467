//! The doors, over real HTTP on loopback: a service on a real store, with a scripted judge, a clock
//! that the test moves, and a token of every kind.

pub(crate) mod world;

mod health;

/// Runs each case on both stores.
macro_rules! on_both_stores {
    ($($case:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let place = crate::store::place::SqlitePlace::new();
                    super::$case(crate::doors::world::World::start(place.open().await).await).await;
                }
            )+
        }

        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let place = crate::store::place::PostgresPlace::new().await;
                    super::$case(crate::doors::world::World::start(place.open().await).await).await;
                    place.remove().await;
                }
            )+
        }
    };
}
pub(crate) use on_both_stores;
