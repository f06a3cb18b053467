//! Offline evaluation: fixture conversations and external cases, judged by nobody, by recorded
//! answers or by a real judge, and what came of it in figures.
//!
//! ```text
//! load (files → cases)  →  run (plan, ask, settle)  →  report (counts → table, JSON)
//! ```
//!
//! The tests read fixtures with this loader too; only the judge differs. Nothing here stores an
//! approval or answers a caller, and nothing that serves requests uses anything of it: recorded
//! judges exist here alone.

mod case;
mod document;
pub mod export;
mod external;
mod fixture;
mod load;
mod recorded;
pub mod report;
mod run;
mod sample;
mod save;
mod stage;
mod state;
pub mod statistics;
mod table;

pub use case::{Answer, Call, Case, Differs, Expect, Group, Labels, Miss, Strength};
pub use external::External;
pub use fixture::{Fixture, FixtureCall, read_fixture};
pub use load::{FileProblem, Suites, load};
pub use recorded::Recording;
pub use report::Report;
pub use run::{Answered, Ending, JudgeKind, Options, Outcomes, Record, run};
pub use sample::Sample;
pub use save::{Header, Writer};
pub use stage::{CODES, Stage, stage, stage_of_code};
