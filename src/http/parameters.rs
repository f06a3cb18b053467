//! What stands in a path and after its `?`, read strictly: what nobody asked for is refused, and
//! what a caller wrote there comes back in no error.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::path::Path;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::Doors;
use crate::host::gateway::parse_duration;
use crate::service::Refusal;

/// The variable segments of a path, decoded.
#[derive(Debug, Clone)]
pub struct Segments<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Doors> for Segments<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refusal> {
        // Looked at first: its error says which segment is not UTF-8.
        if let Err(error) = RawPathParams::from_request_parts(parts, doors).await {
            let text = format!("The path cannot be read: {}.", error.body_text());
            return Err(Refusal::invalid("path", text));
        }
        match Path::from_request_parts(parts, doors).await {
            Ok(Path(segments)) => Ok(Self(segments)),
            Err(_rejection) => Err(Refusal::invalid("path", "The path cannot be read.")),
        }
    }
}

/// A path that takes no parameters, and has none.
#[derive(Debug, Clone, Copy)]
pub struct NoParameters;

impl FromRequestParts<Doors> for NoParameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _doors: &Doors) -> Result<Self, Refusal> {
        Parameters::read(&parts.uri, &[]).map(|_none| Self)
    }
}

/// The parameters after a path's `?`, each at most once.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Reads the parameters of `uri`, of which only `known` ones may stand there.
    ///
    /// # Errors
    /// 400 for an unknown or repeated parameter.
    pub(super) fn read(uri: &Uri, known: &[&'static str]) -> Result<Self, Refusal> {
        let mut parameters = BTreeMap::new();
        let query = uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let Some(name) = known.iter().find(|known| **known == name) else {
                let text = match known {
                    [] => "This path takes no parameters.".to_owned(),
                    known => format!("The parameters here are {}.", known.join(", ")),
                };
                // Only names that we know stand in `param`.
                return Err(Refusal::invalid("query", text));
            };
            if parameters.insert(*name, value.into_owned()).is_some() {
                return Err(Refusal::invalid(name, "The parameter stands twice."));
            }
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
        let value = read(text);
        let refusal = || Refusal::invalid(name, format!("Expected {expected}."));
        value.map(Some).ok_or_else(refusal)
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
