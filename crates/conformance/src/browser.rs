//! The user and the browser of a sign-in: visits a URL, and follows its redirect.

use http::header::LOCATION;
use http::{HeaderMap, Method};
use trunkline::transport::Dialer;
use trunkline_transport::http::{FetchRequest, Fetcher, FullResponse};
use url::Url;

/// The most redirects of one visit.
const MAX_REDIRECTS: usize = 5;

/// The longest page.
const MAX_PAGE: usize = 1024 * 1024;

/// Visits `url`. Returns an error if the last page reports one.
pub(crate) async fn visit(url: &str) -> Result<(), String> {
    let dialer = Dialer::from_env();
    let mut url: Url = url.parse().map_err(|error| format!("{url}: {error}"))?;
    for _ in 0..=MAX_REDIRECTS {
        let page = get(&dialer, &url).await?;
        match page.status {
            300..=399 => url = redirect(&url, &page.headers)?,
            200..=299 => return Ok(()),
            status => {
                let text = String::from_utf8_lossy(&page.body);
                return Err(format!("the browser got status {status}: {}", shown(&text)));
            }
        }
    }
    Err(format!("{url} redirects too often"))
}

async fn get(dialer: &Dialer, url: &Url) -> Result<FullResponse, String> {
    let failed = |error| format!("the browser failed at {url}: {error}");
    let fetcher = Fetcher::new(dialer, url, &[], None).map_err(failed)?;
    let request = FetchRequest {
        method: Method::GET,
        url,
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    };
    fetcher.send(request, MAX_PAGE).await.map_err(failed)
}

fn redirect(from: &Url, headers: &HeaderMap) -> Result<Url, String> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    location
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| format!("{from} redirects nowhere"))
}

/// The text of a page on one line.
fn shown(page: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in page.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_relative_to_its_page() {
        let from: Url = "http://localhost:1/authorize?x=1".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert!(redirect(&from, &headers).is_err());
        for (location, expected) in [
            ("/callback?code=c", "http://localhost:1/callback?code=c"),
            ("http://127.0.0.1:2/callback", "http://127.0.0.1:2/callback"),
        ] {
            headers.insert(LOCATION, location.parse().unwrap());
            assert_eq!(redirect(&from, &headers).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn a_page_is_shown_as_text() {
        assert_eq!(shown("<p>You are\n <b>out</b></p>"), "You are out");
    }
}
