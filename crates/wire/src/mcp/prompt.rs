//! Prompt arguments and messages.

use bytestring::ByteString;

use super::content::Blocks;
use super::{Content, Prompt};
use crate::json::Json;

/// The maximum number of arguments of a prompt (SEC-4).
const MAX_ARGUMENTS: usize = 1000;

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description. Untrusted text.
    pub description: Option<String>,
    /// Whether the argument is required.
    pub required: bool,
}

impl Prompt {
    /// Returns the arguments, or `None` if the server lists none. Invalid arguments are skipped.
    pub fn arguments(&self) -> Option<Vec<PromptArgument>> {
        let mut arguments: Vec<PromptArgument> = Vec::new();
        let list = self.raw.get("arguments")?.elements(|argument| {
            // Looking for a repeated name takes time, too.
            if arguments.len() == MAX_ARGUMENTS {
                return;
            }
            let name: Option<String> = argument.field("name");
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                return;
            };
            let known = arguments.iter().any(|argument| argument.name == name);
            if !known {
                arguments.push(PromptArgument {
                    name,
                    description: argument.field("description"),
                    required: argument.field("required") == Some(true),
                });
            }
        });
        list.then_some(arguments)
    }

    /// Returns the display name.
    pub fn title(&self) -> Option<String> {
        self.raw.field("title")
    }
}

/// One message of a prompt.
#[derive(Clone, Debug)]
pub struct PromptMessage {
    /// The role: `user` or `assistant`.
    pub role: ByteString,
    /// The content.
    pub content: Content,
}

/// The result of `prompts/get`.
#[derive(Clone, Debug)]
pub struct GetPromptResult {
    /// The description. Untrusted text.
    pub description: Option<String>,
    /// The messages, one for each content block, up to
    /// [`MAX_CONTENT_BLOCKS`](super::MAX_CONTENT_BLOCKS).
    pub messages: Vec<PromptMessage>,
    /// The number of content blocks beyond that, which are not read.
    pub omitted: usize,
    /// The whole result as the server wrote it.
    pub raw: Json,
}

impl GetPromptResult {
    /// Reads the result of `prompts/get`. Fails only if it contains no messages.
    pub fn from_json(result: &Json) -> Result<Self, String> {
        let (mut blocks, mut roles) = (Blocks::default(), Vec::new());
        let all = result.get("messages").ok_or("it has no `messages`")?;
        let list = all.elements(|message| {
            let role = message.get("role").and_then(|role| role.as_string());
            let Some(content) = message.get("content") else {
                return;
            };
            let role = role.unwrap_or_else(|| ByteString::from_static("user"));
            // Some servers send several blocks in one message.
            blocks.extend(content);
            roles.resize(blocks.content.len(), role);
        });
        if !list {
            return Err("its `messages` are not a list".to_owned());
        }
        let messages = roles.into_iter().zip(blocks.content);
        let messages = messages.map(|(role, content)| PromptMessage { role, content });
        Ok(Self {
            description: result.field("description"),
            messages: messages.collect(),
            omitted: blocks.omitted,
            raw: result.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Item, MAX_CONTENT_BLOCKS};
    use super::*;

    #[test]
    fn messages_of_any_shape_are_read() {
        let result = Json::parse(
            r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"a"}},
                {"role":"assistant","content":"bare"},{"content":[{"type":"text","text":"b"},{"type":"image"}]},{"role":"user"},5]}"#,
        )
        .unwrap();
        let prompt = GetPromptResult::from_json(&result).unwrap();
        let said: Vec<_> = prompt
            .messages
            .iter()
            .map(|message| (&*message.role, message.content.kind()))
            .collect();
        assert_eq!(
            said,
            [
                ("user", "text"),
                ("assistant", "text"),
                ("user", "text"),
                ("user", "image")
            ]
        );
        assert_eq!(prompt.description.as_deref(), Some("d"));
        let many = vec![r#"{"content":[{},{}]}"#; MAX_CONTENT_BLOCKS / 2 + 1].join(",");
        let many = Json::parse(format!(r#"{{"messages":[{many}]}}"#)).unwrap();
        let many = GetPromptResult::from_json(&many).unwrap();
        assert_eq!((many.messages.len(), many.omitted), (MAX_CONTENT_BLOCKS, 2));
        for text in ["{}", r#"{"messages":5}"#] {
            assert!(GetPromptResult::from_json(&Json::parse(text).unwrap()).is_err());
        }
    }

    #[test]
    fn unnamed_and_repeated_arguments_are_skipped() {
        let prompt = |arguments: &str| {
            let text = format!(r#"{{"name":"p","arguments":{arguments}}}"#);
            Prompt::from_json(Json::parse(text).unwrap()).unwrap()
        };
        let arguments =
            prompt(r#"[{"name":"a","required":true},{"name":""},7,{"name":"b","required":"yes"},{"name":"a"}]"#)
                .arguments()
                .unwrap();
        let named: Vec<_> = arguments
            .iter()
            .map(|argument| (argument.name.as_str(), argument.required))
            .collect();
        assert_eq!(named, [("a", true), ("b", false)]);
        assert_eq!(prompt("7").arguments(), None);
    }
}
