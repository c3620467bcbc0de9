//! Parses one page of the list leniently: an invalid item is skipped.

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Connector, ConnectorsError};

/// Maximum length of a display name in characters; it becomes part of a server name.
const MAX_DISPLAY_NAME: usize = 200;

/// Maximum length of an ID.
const MAX_ID: usize = 200;

pub(super) struct Page {
    pub(super) items: Vec<Value>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    data: Vec<Value>,
    has_more: Option<bool>,
    next_page: Option<String>,
}

pub(super) fn read(body: &[u8]) -> Result<Page, ConnectorsError> {
    if body.trim_ascii_start().starts_with(b"<") {
        return Err(ConnectorsError::Malformed {
            reason: "it is a web page".to_owned(),
        });
    }
    let raw: Raw = serde_json::from_slice(body).map_err(|error| {
        let reason = if error.is_eof() {
            "it ends too early".to_owned()
        } else {
            format!(
                "it is not a list of connectors (line {}, column {})",
                error.line(),
                error.column()
            )
        };
        ConnectorsError::Malformed { reason }
    })?;
    let next = raw
        .next_page
        .filter(|next| raw.has_more != Some(false) && !next.is_empty());
    Ok(Page {
        items: raw.data,
        next,
    })
}

/// Parses one item; `Err` holds the reason it is invalid.
pub(super) fn connector(item: &Value, proxy: &Url) -> Result<Connector, &'static str> {
    let text = |key| item.get(key).and_then(Value::as_str).map(str::trim);
    if text("type").is_some_and(|kind| kind != "mcp_server") {
        return Err("it is not an MCP server");
    }
    let id = text("id")
        .filter(|id| !id.is_empty())
        .ok_or("it has no id")?;
    // Dots would traverse the proxy's path.
    if id.len() > MAX_ID || id.contains(char::is_control) || matches!(id, "." | "..") {
        return Err("its id cannot be part of a URL");
    }
    let display_name = text("display_name")
        .filter(|name| !name.is_empty())
        .ok_or("it has no display name")?;
    if display_name.chars().count() > MAX_DISPLAY_NAME {
        return Err("its display name is too long");
    }
    if display_name.contains(char::is_control) {
        return Err("its display name has control characters");
    }
    let url = text("url").ok_or("it has no URL")?;
    match Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => {}
        _ => return Err("its URL is not one of http or https"),
    }
    Ok(Connector {
        id: id.to_owned(),
        display_name: display_name.to_owned(),
        url: url.to_owned(),
        proxy_url: with_path(proxy, &["v1", "mcp", id]).into(),
    })
}

/// Appends escaped path segments to `base`.
pub(super) fn with_path(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    // Fails only for URLs without a host, which were rejected earlier.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn proxy() -> Url {
        Url::parse("https://proxy.example").unwrap()
    }

    #[test]
    fn valid_item_is_parsed() {
        let item = json!({"type": "mcp_server", "id": "a/b?c", "display_name": " Slack ", "url": "https://mcp.slack.com", "created_at": "now", "new": [1]});
        let connector = connector(&item, &proxy()).unwrap();
        assert_eq!(connector.display_name, "Slack");
        assert_eq!(connector.url, "https://mcp.slack.com");
        assert_eq!(
            connector.proxy_url,
            "https://proxy.example/v1/mcp/a%2Fb%3Fc"
        );
    }

    #[test]
    fn invalid_item_is_reported() {
        let check = |key: &str, value: Value, expected: &str| {
            let mut item = json!({"type": "mcp_server", "id": "1", "display_name": "Slack", "url": "https://mcp.slack.com"});
            item[key] = value;
            assert_eq!(connector(&item, &proxy()).unwrap_err(), expected);
        };
        check("type", json!("file"), "it is not an MCP server");
        check("id", Value::Null, "it has no id");
        check("id", json!("  "), "it has no id");
        check("id", json!(".."), "its id cannot be part of a URL");
        check("id", json!("a\nb"), "its id cannot be part of a URL");
        check("display_name", json!(7), "it has no display name");
        check(
            "display_name",
            json!("\u{1b}[31m"),
            "its display name has control characters",
        );
        check(
            "display_name",
            json!("x".repeat(201)),
            "its display name is too long",
        );
        check("url", Value::Null, "it has no URL");
        check(
            "url",
            json!("file:///etc"),
            "its URL is not one of http or https",
        );
        assert_eq!(connector(&json!(3), &proxy()).unwrap_err(), "it has no id");
    }

    #[test]
    fn next_page_cursor_is_parsed() {
        let next = |text: &str| read(text.as_bytes()).unwrap().next;
        assert_eq!(next(r#"{"data": []}"#), None);
        assert_eq!(next(r#"{"data": [], "has_more": true}"#), None);
        assert_eq!(
            next(r#"{"data": [], "has_more": false, "next_page": "x"}"#),
            None
        );
        assert_eq!(
            next(r#"{"data": [], "has_more": true, "next_page": null}"#),
            None
        );
        assert_eq!(
            next(r#"{"data": [], "has_more": true, "next_page": "x"}"#).unwrap(),
            "x"
        );
    }
}
