//! The tool calls to be judged, the conversation before them, and who said what in it.
//!
//! Host adapters make these values from their wire formats; nothing here knows a wire format.

use super::json::{Json, Unreadable};
use super::policy::{Class, Mode};

/// Through which door a request came. Doors other than the gateway's read an unclassified tool
/// more strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// A gateway that sends every call of its agents.
    Gateway,
    /// The Agent Approval Protocol.
    Aap,
    /// Our own proxy in front of an MCP server.
    Proxy,
    /// A hook of a coding agent.
    Hook,
}

/// One request: the calls that an agent wants to make now, all raised by one model answer.
#[derive(Debug, Clone)]
pub struct Request {
    /// The door it came through.
    pub door: Door,
    /// The conversation's mode, resolved and offered by the agent version.
    pub mode: Mode,
    /// All that came before the calls.
    pub conversation: Conversation,
    /// The gateway's own list of tools.
    pub tools: Vec<Tool>,
    /// The calls, in the order in which the model raised them.
    pub calls: Vec<Call>,
}

/// What an agent version is: its owner's instructions and the tools that it alone defines.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    /// The system prompt that its author wrote.
    pub instructions: String,
    /// Tools that the version defines.
    pub tools: Vec<Tool>,
}

/// The items before the calls, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// The items.
    pub items: Vec<Item>,
}

/// One item of a conversation, by who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Text that a person typed: the only item that can authorise, and a source for the detectors.
    Person {
        /// The text parts, joined by line breaks.
        text: String,
        /// Files, images and other parts that are not text; none of them is read.
        attachments: usize,
    },
    /// The agent's own prose.
    Assistant {
        /// The text.
        text: String,
    },
    /// A call that the agent made earlier.
    Call {
        /// Joins the call with its result.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// The arguments' text as it ran.
        arguments: String,
    },
    /// A tool's answer.
    Result {
        /// The call that it answers.
        call_id: String,
        /// The answer's text.
        text: String,
    },
    /// Text in the user's role that no person typed, or in the system's or developer's role.
    Other {
        /// The role that the item claims.
        role: &'static str,
        /// The text.
        text: String,
    },
    /// An item of a kind that we do not know; only its presence counts.
    Opaque,
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Built into the runtime.
    Builtin,
    /// A module of the installation's catalogue.
    Catalog,
    /// Defined by the agent's author.
    Function,
    /// Offered by a connected MCP server.
    Connector,
}

/// A tool's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// `[A-Za-z0-9_./-]{1,128}`
    pub name: String,
    /// Who defines it.
    pub origin: Origin,
    /// The MCP server's label; connectors alone have one.
    pub server_label: Option<String>,
    /// The definition's version, as its owner counts.
    pub version: Option<String>,
    /// What its author says of it: a third party's words.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: Option<Json>,
    /// MCP's behaviour hints.
    pub annotations: Annotations,
    /// Whether this is the built-in `Bash` in its offline sandbox.
    pub sandbox: bool,
}

/// MCP tool annotations as met, before anyone makes sense of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Annotations {
    /// None, or `null`.
    Absent,
    /// Something other than `null`: an object in a valid definition.
    Present(Json),
}

/// One call that waits for a decision.
#[derive(Debug, Clone)]
pub struct Call {
    /// The caller's name for it.
    pub call_id: String,
    /// The tool's bare name.
    pub tool: String,
    /// The MCP server's label, for a connector's tool.
    pub server_label: Option<String>,
    /// The exact text of the arguments that will run.
    pub arguments_text: String,
    /// The same, read; or why every reader might not read it the same way.
    pub arguments: Result<Json, ArgumentsUnreadable>,
    /// For the built-in `Bash`: its time limit in seconds.
    pub timeout_seconds: Option<u32>,
}

/// Why a call's arguments cannot be relied on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsUnreadable {
    /// Not one JSON object.
    #[error("the arguments are not a JSON object")]
    NotAnObject,
    /// JSON that parsers may read differently.
    #[error(transparent)]
    Json(#[from] Unreadable),
}

impl Call {
    /// A call whose arguments are read from their exact text.
    #[must_use]
    pub fn new(call_id: &str, tool: &str, server_label: Option<&str>, arguments: &str) -> Self {
        let read = match super::json::read(arguments) {
            Ok(value @ Json::Object(_)) => Ok(value),
            Ok(_) => Err(ArgumentsUnreadable::NotAnObject),
            Err(unreadable) => Err(unreadable.into()),
        };
        Self {
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            server_label: server_label.map(str::to_owned),
            arguments_text: arguments.to_owned(),
            arguments: read,
            timeout_seconds: None,
        }
    }

    /// The definition of the call's tool: the agent version's own, else the gateway's; `None` for a
    /// tool that neither defines. Whether it may be relied on is for the plan to say.
    #[must_use]
    pub fn definition<'a>(&self, agent: &'a Agent, listed: &'a [Tool]) -> Option<&'a Tool> {
        let named = |tool: &&Tool| tool.name == self.tool && tool.server_label == self.server_label;
        agent.tools.iter().find(named).or_else(|| listed.iter().find(named))
    }

    /// What stands in for a definition that nobody gave: the call's own names and nothing else.
    #[must_use]
    pub fn undefined_tool(&self) -> Tool {
        Tool { server_label: self.server_label.clone(), ..Tool::new(&self.tool, Origin::Function) }
    }
}

impl Tool {
    /// A tool with a name and an origin and nothing else.
    #[must_use]
    pub fn new(name: &str, origin: Origin) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            server_label: None,
            version: None,
            description: None,
            input_schema: None,
            annotations: Annotations::Absent,
            sandbox: false,
        }
    }

    /// The name under which rules may also match: `mcp__<label>__<name>` for a connector's tool.
    #[must_use]
    pub fn qualified_name(&self) -> Option<String> {
        self.server_label.as_ref().map(|label| format!("mcp__{label}__{}", self.name))
    }

    /// Whether both define the same tool in the same way, whatever the notation.
    #[must_use]
    pub fn same_definition(&self, other: &Self) -> bool {
        self.name == other.name
            && self.server_label == other.server_label
            && self.origin == other.origin
            && self.version == other.version
            && self.sandbox == other.sandbox
            && self.definition_digest() == other.definition_digest()
    }

    /// Digest of what explains the tool: description, input schema, annotations. A call under
    /// another digest is a call of another tool.
    #[must_use]
    pub fn definition_digest(&self) -> String {
        let annotations = match &self.annotations {
            Annotations::Absent => "null".to_owned(),
            Annotations::Present(value) => value.canonical(),
        };
        super::digest(&[
            "tool-definition-1",
            self.description.as_deref().unwrap_or_default(),
            &self.input_schema.as_ref().map_or_else(String::new, Json::canonical),
            &annotations,
        ])
    }
}

/// A name in the operator's catalogue of built-in tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The built-in tool's name.
    pub name: String,
    /// Its class floor, for a tool without annotations.
    pub class: Class,
    /// Whether only a person may ever approve it.
    pub human_only: bool,
}
