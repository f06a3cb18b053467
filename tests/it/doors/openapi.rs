//! The description of the doors has every route and every code, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use approver::http::openapi::DOCUMENT;
use approver::service::Code;
use reqwest::Method;
use serde_json::Value;

use super::world::World;
use crate::store::place::SqlitePlace;

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

/// Every path that a file of `src/http` routes.
fn routed() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                for rest in text.split(".route(").skip(1) {
                    let path = rest.trim_start().strip_prefix('"').expect("a route is a literal");
                    paths.insert(path.split('"').next().unwrap().to_owned());
                }
            }
        }
    }
    assert!(paths.contains("/healthz"));
    paths
}

/// The methods of each described path.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .map(|(path, item)| {
            let methods = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
            (path.clone(), methods.map(|method| method.to_uppercase()).collect())
        })
        .collect()
}

#[test]
fn every_route_is_described_and_no_other() {
    let described: BTreeSet<String> = described().into_keys().collect();
    assert_eq!(described, routed());
}

#[tokio::test]
async fn every_method_is_described_and_no_other() {
    let place = SqlitePlace::new();
    let world = World::start(place.open().await).await;
    for (path, methods) in described() {
        // No route has this method, and the refusal names those that it has.
        let here = path.replace(['{', '}'], "");
        let reply = world.send(Method::TRACE, &here, None, &[], None).await;
        assert_eq!(reply.status, 405, "{path}");
        let allowed = reply.headers["allow"].to_str().unwrap();
        let allowed: BTreeSet<String> = allowed
            .split(',')
            .map(|method| method.trim().to_owned())
            .filter(|method| method != "HEAD")
            .collect();
        assert_eq!(allowed, methods, "{path}");
    }
}

#[test]
fn every_code_is_described_with_its_status() {
    let document = document();
    let codes = &document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]
        ["enum"];
    let described: BTreeSet<&str> =
        codes.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
    let all: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(described, all);
    // Each operation lists its codes under their statuses.
    let statuses: BTreeMap<&str, u16> =
        Code::ALL.iter().map(|code| (code.as_str(), code.status())).collect();
    let mut seen = 0;
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let Some(responses) = operation["responses"].as_object() else { continue };
            for (status, response) in responses {
                let response = resolved(&document, response);
                let schema = &response["content"]["application/json"]["schema"]["allOf"][1];
                let codes = &schema["properties"]["error"]["properties"]["code"]["enum"];
                for code in codes.as_array().into_iter().flatten() {
                    let code = code.as_str().unwrap();
                    assert_eq!(statuses[code].to_string(), *status, "{code}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

/// What any request may meet, each operation says.
#[test]
fn every_operation_names_what_holds_for_all() {
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(responses) = operation["responses"].as_object() else { continue };
            for status in ["414", "431", "500"] {
                assert!(responses.contains_key(status), "{method} {path} without {status}");
            }
        }
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

/// Objects of ours say that they have no further members; only those that others fill are open.
#[test]
fn objects_are_closed_and_references_lead_somewhere() {
    fn walk(document: &Value, value: &Value, path: &str) {
        match value {
            Value::Object(members) => {
                if value["type"] == "object" && value["properties"].is_object() {
                    let closed = value["additionalProperties"].is_boolean();
                    assert!(closed, "{path} does not say whether it is closed");
                }
                if let Some(reference) = value["$ref"].as_str() {
                    let found = document.pointer(reference.strip_prefix('#').unwrap());
                    assert!(found.is_some(), "{path}: {reference}");
                }
                for (key, member) in members {
                    walk(document, member, &format!("{path}/{key}"));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(document, item, &format!("{path}/{index}"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    walk(&document, &document, "");
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn the_document_is_served_as_it_is() {
    let place = SqlitePlace::new();
    let world = World::start(place.open().await).await;
    let reply = world.send(Method::GET, "/openapi.json", None, &[], None).await;
    assert_eq!(reply.headers["content-type"], "application/json");
    assert_eq!(reply.text, DOCUMENT);
}
