//! Query strings and paths, read strictly: what nobody asked for is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;

use super::Doors;
use crate::decide::walk::quoted;
use crate::host::gateway::parse_duration;
use crate::service::{Code, Refusal};

/// The parameters of a query string, each at most once.
#[derive(Debug)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the query of `uri`, in which only `known` parameters may stand.
    ///
    /// # Errors
    /// 400 for an unknown or repeated parameter.
    pub(super) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Refusal> {
        let mut parameters = BTreeMap::new();
        let query = uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let text = format!("There is no parameter {}.", quoted(&name));
                // Only names that we know stand in `param`.
                return Err(Refusal::new(Code::InvalidRequest, text).at("query"));
            }
            let name = name.into_owned();
            if parameters.contains_key(&name) {
                return Err(Refusal::invalid(&name, "The parameter stands twice."));
            }
            parameters.insert(name, value.into_owned());
        }
        Ok(Self(parameters))
    }

    /// A parameter's text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A parameter that `read` understands.
    ///
    /// # Errors
    /// 400 that says what was expected.
    pub(super) fn value<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| {
            Refusal::invalid(name, format!("Expected {expected}, found {}.", quoted(text)))
        })
    }

    /// How long to wait. Longer than the service waits is no error.
    ///
    /// # Errors
    /// 400 for what is no duration.
    pub(super) fn wait(&self) -> Result<Option<Duration>, Refusal> {
        self.value("wait", "a duration such as `30s`", |text| {
            parse_duration(text).map(Duration::from_secs)
        })
    }
}

/// The last part of a path that has one variable part.
#[derive(Debug)]
pub(super) struct Id(pub(super) String);

impl FromRequestParts<Doors> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, doors).await;
        path.map(|Path(id)| Self(id)).map_err(|_| Refusal::not_found("path"))
    }
}
