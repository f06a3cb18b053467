//! Tool definitions as they are stored with a conversation: in the form of requests, so that a
//! decision can apply the policy to the tool that would run now.

use serde_json::{Map, Value, json};

use crate::decide::json;
use crate::decide::request::{Annotations, Origin, Tool};
use crate::host::tool;

/// The stored form of a definition.
#[must_use]
pub fn write(tool: &Tool) -> String {
    let mut members = Map::new();
    let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
    add("name", json!(tool.name));
    add("origin", json!(origin(tool.origin)));
    for (name, text) in [
        ("server_label", &tool.server_label),
        ("version", &tool.version),
        ("description", &tool.description),
    ] {
        if let Some(text) = text {
            add(name, json!(text));
        }
    }
    if tool.sandbox {
        add("sandbox", json!(true));
    }
    let mut text = Value::Object(members).to_string();
    // Written by our own writer, which keeps numbers as they were.
    let mut append = |name: &str, value: &json::Json| {
        text.pop();
        text.push_str(&format!(",\"{name}\":{value}}}"));
    };
    if let Some(schema) = &tool.input_schema {
        append("inputSchema", schema);
    }
    if let Annotations::Present(annotations) = &tool.annotations {
        append("annotations", annotations);
    }
    text
}

/// A stored definition; `None` for what this program never writes.
#[must_use]
pub fn read(content: &str) -> Option<Tool> {
    let document = json::read_document(content).ok()?;
    let mut problems = Vec::new();
    tool::parse(&document.value, "$", &mut problems)
}

const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Builtin => "builtin",
        Origin::Catalog => "catalog",
        Origin::Function => "function",
        Origin::Connector => "connector",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let schema = json::read(r#"{"type":"object","maximum":1.50}"#).unwrap();
        let annotations = json::read(r#"{"readOnlyHint":true,"x":9007199254740993}"#).unwrap();
        let whole = Tool {
            server_label: Some("erp".to_owned()),
            version: Some("3".to_owned()),
            description: Some("says \"hi\"\n".to_owned()),
            input_schema: Some(schema),
            annotations: Annotations::Present(annotations),
            ..Tool::new("orders", Origin::Connector)
        };
        let bash = Tool { sandbox: true, ..Tool::new("Bash", Origin::Builtin) };
        for tool in [whole, bash, Tool::new("a", Origin::Catalog), Tool::new("a", Origin::Function)]
        {
            assert_eq!(read(&write(&tool)), Some(tool));
        }
        assert_eq!(read("{}"), None);
    }
}
