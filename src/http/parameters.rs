//! What stands in a path and after its `?`.

use axum::extract::path::Path;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::Doors;
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

/// The parameters after a path's `?`: each at most once, none that the endpoint does not know.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Vec<(String, String)>);

impl FromRequestParts<Doors> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _doors: &Doors) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        let parameters = url::form_urlencoded::parse(query.as_bytes());
        Ok(Self(parameters.map(|(name, value)| (name.into(), value.into())).collect()))
    }
}

impl Parameters {
    /// The values of `known` parameters, in their order.
    ///
    /// # Errors
    /// 400 for an unknown parameter, and for one that comes twice.
    pub fn read<const N: usize>(
        self,
        known: [&'static str; N],
    ) -> Result<[Option<String>; N], Refusal> {
        let mut values = [const { None }; N];
        for (name, value) in self.0 {
            let Some(place) = known.iter().position(|known| *known == name) else {
                let text = match known.as_slice() {
                    [] => "This path takes no parameters.".to_owned(),
                    known => format!("The parameters here are {}.", known.join(", ")),
                };
                return Err(Refusal::invalid("query", text));
            };
            if values[place].replace(value).is_some() {
                let text = format!("`{name}` comes twice.");
                return Err(Refusal::invalid(known[place], text));
            }
        }
        Ok(values)
    }
}
