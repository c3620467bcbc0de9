//! The media types of a request.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// The kinds of answers that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// Reads the `Accept` headers. Without one, everything is accepted.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self {
            json: false,
            events: false,
        };
        if !headers.contains_key(ACCEPT) {
            return Self {
                json: true,
                events: true,
            };
        }
        for value in headers.get_all(ACCEPT) {
            for range in value.to_str().unwrap_or_default().split(',') {
                let kind = range.split(';').next().unwrap_or_default().trim();
                match kind.to_ascii_lowercase().as_str() {
                    "*/*" => (accepts.json, accepts.events) = (true, true),
                    "application/*" | "application/json" => accepts.json = true,
                    "text/*" | "text/event-stream" => accepts.events = true,
                    _ => {}
                }
            }
        }
        accepts
    }
}

/// Returns true for a body of JSON. A page of another origin cannot send that without asking.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn media_types_are_read_without_their_parameters() {
        let accepts = |text: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(text))]);
            let accepts = Accepts::of(&headers);
            (accepts.json, accepts.events)
        };
        assert_eq!(accepts("application/json, text/event-stream"), (true, true));
        assert_eq!(accepts("Application/JSON;q=0.9"), (true, false));
        assert_eq!(accepts("text/event-stream"), (false, true));
        assert_eq!(accepts("*/*"), (true, true));
        assert_eq!(accepts("text/html"), (false, false));
        assert_eq!(accepts("application/jsonx"), (false, false));
        let content = |text: &'static str| {
            is_json(&HeaderMap::from_iter([(
                CONTENT_TYPE,
                HeaderValue::from_static(text),
            )]))
        };
        assert!(content("application/json; charset=utf-8"));
        assert!(!content("text/plain"));
        assert!(!content("application/jsonp"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
