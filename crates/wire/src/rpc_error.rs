//! The `error` member of a JSON-RPC response.

use std::fmt;

use crate::json::{Json, ObjectWriter};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// The JSON-RPC or MCP error code.
    pub code: i64,
    /// The peer's message. Untrusted text.
    pub message: String,
    /// Additional data.
    pub data: Option<Json>,
}

impl RpcError {
    /// The message was not valid JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message was not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The user must open a URL first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer failed internally.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Modern: the protocol version of the request is not supported. `data.supported` lists the
    /// supported versions.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// Modern: a header contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the request needs a client capability that was not declared.
    pub const MISSING_CAPABILITY: i64 = -32021;

    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Creates the error for an unknown method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            Self::METHOD_NOT_FOUND,
            format!("method not found: {method}"),
        )
    }

    /// Returns true if the peer rejected the request before acting on it. Other errors may occur
    /// halfway.
    pub fn is_refusal(&self) -> bool {
        self.is_modern()
            || matches!(
                self.code,
                Self::PARSE_ERROR
                    | Self::INVALID_REQUEST
                    | Self::METHOD_NOT_FOUND
                    | Self::INVALID_PARAMS
                    | Self::URL_ELICITATION_REQUIRED
            )
    }

    /// Returns true for codes that only modern servers send.
    pub fn is_modern(&self) -> bool {
        matches!(
            self.code,
            Self::UNSUPPORTED_VERSION | Self::HEADER_MISMATCH | Self::MISSING_CAPABILITY
        )
    }

    /// Reads the `error` member in any shape.
    pub(crate) fn from_json(error: &Json) -> Self {
        if let Some(text) = error.as_string() {
            return Self::new(Self::INTERNAL_ERROR, String::from(&*text));
        }
        if !error.is_object() {
            return Self::new(Self::INTERNAL_ERROR, error.to_string());
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a code that is no integer is only shown"
        )]
        let code = error
            .field::<i64>("code")
            .or_else(|| error.field::<f64>("code").map(|code| code as i64))
            .unwrap_or(Self::INTERNAL_ERROR);
        Self {
            code,
            message: error
                .get("message")
                .and_then(|message| message.as_string())
                .unwrap_or_default()
                .to_string(),
            data: error.get("data").filter(|data| !data.is_null()),
        }
    }

    /// Returns the `error` member.
    pub fn to_json(&self) -> Json {
        let mut object = ObjectWriter::new();
        object.raw("code", &Json::from_checked(self.code.to_string()));
        object.string("message", &self.message);
        if let Some(data) = &self.data {
            object.raw("data", data);
        }
        object.finish()
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "error {} without a message", self.code)
        } else if self.message.contains(&format!("error {}", self.code)) {
            // Some SDKs put the code into the message: "MCP error -32602: …".
            f.write_str(&self.message)
        } else {
            write!(f, "{} (error {})", self.message, self.code)
        }
    }
}

impl std::error::Error for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_shown_once() {
        let shown = |message: &str| RpcError::new(-32602, message).to_string();
        assert_eq!(shown("no such tool"), "no such tool (error -32602)");
        let with_code = "MCP error -32602: no such tool";
        assert_eq!(shown(with_code), with_code);
    }

    #[test]
    fn errors_of_any_shape_are_read() {
        let cases = [
            (r#"{"code":-32601,"message":"no"}"#, -32601, "no"),
            (r#"{"code":-32601.0,"message":"no"}"#, -32601, "no"),
            (r#"{"message":"no"}"#, -32603, "no"),
            (r#"{"code":"x"}"#, -32603, ""),
            (r#""plain text""#, -32603, "plain text"),
            ("[1]", -32603, "[1]"),
            ("{}", -32603, ""),
        ];
        for (text, code, message) in cases {
            let error = RpcError::from_json(&Json::parse(text).unwrap());
            assert_eq!(
                (error.code, error.message.as_str()),
                (code, message),
                "{text}"
            );
        }
    }
}
