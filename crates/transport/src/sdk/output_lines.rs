//! Encoding of control messages.

use trunkline_wire::transport::Outgoing;
use trunkline_wire::{Json, ObjectWriter};

use super::control::{NOTIFICATION_PREFIX, OutboundId};

use crate::lines::end_line;

const SUCCESS: &str = r#"{"type":"control_response","response":{"subtype":"success","request_id":"#;

/// The control request id of an MCP message.
#[derive(Clone, Copy, Debug)]
pub(super) enum MessageTag {
    /// A request, which gets a response.
    Request(OutboundId),
    /// A notification.
    Notification(u64),
}

/// Encoded lines.
#[derive(Debug, Default)]
pub(super) struct OutputLines(Vec<u8>);

impl OutputLines {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the lines beyond that length.
    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A control request: an object with its `subtype`.
    pub(super) fn request(&mut self, request_id: OutboundId, request: &Json) {
        self.line(&[
            r#"{"type":"control_request","request_id":"#,
            &request_id.id(),
            r#","request":"#,
            request.as_str(),
            "}",
        ]);
    }

    /// A cancellation of our request.
    pub(super) fn cancel(&mut self, request_id: OutboundId) {
        self.line(&[
            r#"{"type":"control_cancel_request","request_id":"#,
            &request_id.id(),
            "}",
        ]);
    }

    /// An MCP message for a server, whose name is given as JSON.
    pub(super) fn message(&mut self, tag: MessageTag, server: &Json, message: &Outgoing) {
        let id = match tag {
            MessageTag::Request(request_id) => request_id.id(),
            MessageTag::Notification(number) => format!("\"{NOTIFICATION_PREFIX}{number}\""),
        };
        let from = self.0.len();
        self.put(&[
            r#"{"type":"control_request","request_id":"#,
            &id,
            r#","request":{"subtype":"mcp_message","server_name":"#,
            server.as_str(),
            r#","message":"#,
        ]);
        message.encode(&mut self.0);
        self.put(&["}}"]);
        self.end(from);
    }

    /// A response with an MCP message.
    pub(super) fn message_answer(&mut self, id: &Json, message: &Outgoing) {
        let from = self.0.len();
        self.put(&[SUCCESS, id.as_str(), r#","response":{"mcp_response":"#]);
        message.encode(&mut self.0);
        self.put(&["}}}"]);
        self.end(from);
    }

    /// A success response.
    pub(super) fn success(&mut self, id: &Json, response: &Json) {
        self.line(&[
            SUCCESS,
            id.as_str(),
            r#","response":"#,
            response.as_str(),
            "}}",
        ]);
    }

    /// An error response.
    pub(super) fn error(&mut self, id: &Json, code: &str, error: &str, more: Option<&Json>) {
        let mut response = ObjectWriter::new();
        response.string("subtype", "error").raw("request_id", id);
        response.string("error", error).string("code", code);
        if let Some(more) = more {
            more.members(|key, value| _ = response.raw(key, &value));
        }
        self.line(&[
            r#"{"type":"control_response","response":"#,
            response.finish().as_str(),
            "}",
        ]);
    }

    /// Any other line.
    pub(super) fn other(&mut self, json: &Json) {
        self.line(&[json.as_str()]);
    }

    fn line(&mut self, parts: &[&str]) {
        let from = self.0.len();
        self.put(parts);
        self.end(from);
    }

    fn put(&mut self, parts: &[&str]) {
        for part in parts {
            self.0.extend_from_slice(part.as_bytes());
        }
    }

    /// Ends the line that starts at `from`.
    fn end(&mut self, from: usize) {
        end_line(&mut self.0, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_line_endings_is_written_on_one_line() {
        let mut lines = OutputLines::default();
        let id = Json::parse("7").unwrap();
        let pretty = Json::parse("{\n  \"a\": \"x\\ny\"\r\n}").unwrap();
        lines.success(&id, &pretty);
        lines.error(&id, "failed", "a \"b\"\nc", Some(&pretty));
        let text = String::from_utf8(lines.into_bytes()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for line in &lines {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        assert_eq!(
            lines[1].replace(' ', ""),
            r#"{"type":"control_response","response":{"subtype":"error","request_id":7,"error":"a\"b\"\nc","code":"failed","a":"x\ny"}}"#
        );
    }
}
