//! The doors, over real HTTP on loopback: a service on a real store, with a scripted judge, a clock
//! that the test moves, and a token of every kind.

pub(crate) mod raised;
pub(crate) mod world;

mod aap;
mod agents;
mod approvals;
mod automatic_approval;
mod broken;
mod claims;
mod conversations;
mod decisions;
mod envelopes;
mod error_texts;
mod events;
mod health;
pub(crate) mod judgements;
mod keys;
mod metrics;
mod openapi;
mod polls;
mod rights;
mod through;
mod tokens;
mod turns;
mod whole;

/// Runs each case on both stores.
macro_rules! on_both_stores {
    ($($case:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let place = crate::store::place::SqlitePlace::new();
                    let world = crate::doors::world::World::start(place.open().await).await;
                    let reopen = crate::doors::world::Reopen::Sqlite(place.settings());
                    super::$case(world.reopened_by(reopen)).await;
                }
            )+
        }

        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let place = crate::store::place::PostgresPlace::new().await;
                    let world = crate::doors::world::World::start(place.open().await).await;
                    let reopen = crate::doors::world::Reopen::Postgres(place.settings());
                    super::$case(world.reopened_by(reopen)).await;
                    place.remove().await;
                }
            )+
        }
    };
}
pub(crate) use on_both_stores;
