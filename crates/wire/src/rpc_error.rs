//! The error member of a JSON-RPC answer.

use std::fmt;

use crate::json::{Json, ObjectWriter};

/// What the other side answered instead of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// The JSON-RPC or MCP error code.
    pub code: i64,
    /// One sentence by the other side; untrusted text.
    pub message: String,
    /// Whatever else it sent along.
    pub data: Option<Json>,
}

impl RpcError {
    /// The JSON text was broken.
    pub const PARSE_ERROR: i64 = -32700;
    /// It was no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The user has to visit a URL first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The method is not known.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The other side failed in a way of its own.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Modern: the protocol version of this request is not supported; `data.supported` lists those that are.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// Modern: header and body disagree.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the request needs a client capability that was not declared.
    pub const MISSING_CAPABILITY: i64 = -32021;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The method is not known here.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            Self::METHOD_NOT_FOUND,
            format!("method not found: {method}"),
        )
    }

    /// Whether the request was turned down before anything was done about it. Other errors may come half-way.
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

    /// True for the codes that only a modern server sends.
    pub fn is_modern(&self) -> bool {
        matches!(
            self.code,
            Self::UNSUPPORTED_VERSION | Self::HEADER_MISMATCH | Self::MISSING_CAPABILITY
        )
    }

    /// Reads the `error` member, whatever shape it has.
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

    pub(crate) fn to_json(&self) -> Json {
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
        } else if self.message.contains(&self.code.to_string()) {
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
    fn every_shape_of_error_becomes_an_error() {
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
