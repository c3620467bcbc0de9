//! The pages that the browser shows at the end of a sign-in: readable, self-contained, and without
//! anything from the redirect except an escaped error.

use crate::error::{AuthError, AuthErrorKind};

/// A page for the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) status: u16,
    title: &'static str,
    /// Text, which is escaped.
    text: String,
    /// What the user can do.
    next: &'static str,
}

impl Page {
    /// The sign-in succeeded.
    pub(crate) fn success(server: &str) -> Self {
        Self {
            status: 200,
            title: "You are signed in",
            text: format!("Trunkline can now use “{server}”."),
            next: "You can close this tab.",
        }
    }

    /// The sign-in failed.
    pub(crate) fn failure(server: &str, error: &AuthError) -> Self {
        let (title, next) = match error.kind() {
            AuthErrorKind::Denied => (
                "Access was denied",
                "Nothing was stored. To try again, start the sign-in once more.",
            ),
            AuthErrorKind::WrongRedirect => (
                "This page belongs to another sign-in",
                "Go back to the newest sign-in page, or start the sign-in once more.",
            ),
            AuthErrorKind::Unavailable => (
                "The authorization server did not respond",
                "Wait a moment, and start the sign-in once more.",
            ),
            _ => (
                "The sign-in failed",
                "Go back to the terminal for details, and start the sign-in once more.",
            ),
        };
        Self {
            status: 400,
            title,
            text: format!("Signing in to “{server}”: {error}."),
            next,
        }
    }

    /// There is no such page.
    pub(crate) fn not_found() -> Self {
        Self {
            status: 404,
            title: "There is no such page",
            text: "This address only receives the end of a sign-in.".to_owned(),
            next: "You can close this tab.",
        }
    }

    /// The whole response.
    pub(crate) fn to_response(&self) -> String {
        let body = self.html();
        let reason = match self.status {
            200 => "OK",
            404 => "Not Found",
            _ => "Bad Request",
        };
        format!(
            "HTTP/1.1 {} {reason}\r\n\
             content-type: text/html; charset=utf-8\r\n\
             content-length: {}\r\n\
             content-security-policy: default-src 'none'; style-src 'unsafe-inline'; \
             frame-ancestors 'none'\r\n\
             x-content-type-options: nosniff\r\n\
             referrer-policy: no-referrer\r\n\
             cache-control: no-store\r\n\
             connection: close\r\n\r\n{body}",
            self.status,
            body.len()
        )
    }

    fn html(&self) -> String {
        let title = escape(self.title);
        let text = escape(&self.text);
        let next = escape(self.next);
        let mark = if self.status == 200 { "✓" } else { "!" };
        let class = if self.status == 200 { "good" } else { "bad" };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title} · Trunkline</title>\n<style>\n{STYLE}</style>\n\
             <main>\n<p class=\"mark {class}\" aria-hidden=\"true\">{mark}</p>\n\
             <h1>{title}</h1>\n<p>{text}</p>\n<p>{next}</p>\n</main>\n</html>\n"
        )
    }
}

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center;
  font: 1.1rem/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText; }
main { max-width: 32rem; padding: 2rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.3; margin: 0.8rem 0; text-wrap: balance; }
p { margin: 0.8rem 0; text-wrap: pretty; }
main .mark { margin: 0; width: 3rem; height: 3rem; border-radius: 50%; display: grid;
  place-items: center; font-size: 1.6rem; color: #fff; }
.good { background: #1a7f37; }
.bad { background: #b35900; }
";

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_page() {
        let cases = [
            (AuthErrorKind::Denied, "Access was denied"),
            (AuthErrorKind::WrongRedirect, "belongs to another sign-in"),
            (AuthErrorKind::Unavailable, "did not respond"),
            (AuthErrorKind::Rejected, "The sign-in failed"),
        ];
        for (kind, title) in cases {
            let error = AuthError::new(kind, "because");
            let response = Page::failure("git<hub>", &error).to_response();
            assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
            assert!(response.contains(title), "{response}");
            assert!(response.contains("git&lt;hub&gt;"), "{response}");
        }
        let response = Page::success("github").to_response();
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        assert!(Page::not_found().to_response().starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn foreign_text_is_escaped_and_nothing_is_loaded() {
        let error = AuthError::from_oauth(
            AuthErrorKind::Rejected,
            "<script>alert(1)</script>",
            Some("\"><img src=x onerror='y'>"),
            &[],
        );
        let html = Page::failure("a", &error).html();
        assert!(
            !html.contains("<script") && !html.contains("<img"),
            "{html}"
        );
        assert!(
            !html.contains("src=\"") && !html.contains("href="),
            "{html}"
        );
        let response = Page::success("a").to_response();
        assert!(response.contains("default-src 'none'"));
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
