//! Why PostgreSQL failed: by code and by the names of our own tables. Its messages quote values, so
//! none of them is kept.

use deadpool_postgres::PoolError;
use rustls::CertificateError;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// A failure without a value in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PostgresCause {
    /// The database said so.
    #[error("PostgreSQL: code {code}{}", name_of(.constraint.as_deref()))]
    Database {
        /// SQLSTATE.
        code: String,
        /// The constraint that was violated.
        constraint: Option<String>,
    },
    /// The connection failed: what the operating system says of it.
    #[error("PostgreSQL: {text}")]
    Connection {
        /// Our word for the step that failed.
        text: &'static str,
        /// The operating system's, where it has one.
        #[source]
        source: Option<Io>,
    },
}

/// An error of the operating system by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Io(std::io::ErrorKind);

fn name_of(constraint: Option<&str>) -> String {
    constraint.map(|name| format!(", constraint `{name}`")).unwrap_or_default()
}

/// How a transaction failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The database undid it and asks for another try.
    Again(PostgresCause),
    /// For good.
    Final(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Final(error)
    }
}

impl PostgresCause {
    pub(super) const fn own(text: &'static str) -> Self {
        Self::Connection { text, source: None }
    }

    pub(super) fn unavailable(self, doing: &'static str) -> StoreError {
        StoreError::Unavailable { doing, source: Box::new(self) }
    }

    pub(super) fn failed(self, doing: &'static str) -> StoreError {
        StoreError::Failed { doing, source: Box::new(self) }
    }
}

/// The cause of an error without what it quotes.
pub(super) fn cause(error: &tokio_postgres::Error) -> PostgresCause {
    if let Some(database) = error.as_db_error() {
        let code = database.code().code().to_owned();
        let constraint = database.constraint().map(str::to_owned);
        return PostgresCause::Database { code, constraint };
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            let tls = io.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
            if let Some(rustls::Error::InvalidCertificate(error)) = tls {
                return PostgresCause::own(certificate(error));
            }
            let (text, source) = ("the connection failed", Some(Io(io.kind())));
            return PostgresCause::Connection { text, source };
        }
        source = inner.source();
    }
    let text = if error.is_closed() { "the connection is closed" } else { "the connection failed" };
    PostgresCause::own(text)
}

/// Why a server's certificate is not accepted. Nothing of it is quoted: it is the server's own text.
const fn certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is out of date, or not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name than the host in `store.url`"
        }
        // A list that others lengthen.
        _ => {
            "the server's certificate is not accepted; `store.root_certificates` is the file of the \
             authorities that count, instead of this machine's"
        }
    }
}

/// Whether the database undid the transaction for another's sake: the same may work right away.
pub(super) fn asks_for_another_try(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
    })
}

/// An error of one statement. What a healthy database would not say is "unavailable".
pub(super) fn error(doing: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let cause = cause(error);
    let Some(code) = error.code().map(SqlState::code) else {
        return cause.unavailable(doing);
    };
    // Classes: connection, transaction rollback, resources, state of objects, operator's
    // intervention, system; and the one code of a server that became a standby.
    let unavailable =
        ["08", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class))
            || code == SqlState::READ_ONLY_SQL_TRANSACTION.code();
    if unavailable { cause.unavailable(doing) } else { cause.failed(doing) }
}

/// An error on the way to a connection.
pub(super) fn pool(doing: &'static str, error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(backend) => self::error(doing, backend),
        PoolError::Timeout(_) => {
            PostgresCause::own("no connection came free in time").unavailable(doing)
        }
        PoolError::Closed => PostgresCause::own("the pool is closed").unavailable(doing),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            PostgresCause::own("a connection could not be prepared").unavailable(doing)
        }
    }
}
