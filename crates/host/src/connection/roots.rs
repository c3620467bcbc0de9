//! Roots: the directories that matter to a client, which servers may ask for.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use trunkline_wire::Json;

use crate::closure::impl_for_closures;

/// The time for a client to name its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers `roots/list` requests of servers for the clients of a program that serves several.
///
/// Closures that take a [`RootsRequest`] implement it; see
/// [`HostBuilder::roots`](crate::HostBuilder::roots).
pub trait Roots: Send + Sync + 'static {
    /// Returns an MCP `ListRootsResult`, or `None` for the project directory.
    fn roots(&self, request: RootsRequest) -> Pin<Box<dyn Future<Output = Option<Json>> + Send>>;
}

impl_for_closures!(Roots, roots(RootsRequest) -> Option<Json>);

/// A server's request for roots.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RootsRequest {
    /// The server, by its name as configured.
    pub server: Arc<str>,
    /// The client whose call or server asks.
    pub client: Arc<str>,
    /// The key under which the server asked, if the call is repeated with the answer (MRTR).
    pub input_key: Option<String>,
}

/// Returns the roots for a client; without one, or without its answer, the project directory.
pub(super) async fn answer(
    roots: Option<Arc<dyn Roots>>,
    request: Option<RootsRequest>,
    project_dir: Option<Arc<Path>>,
) -> Json {
    if let (Some(roots), Some(request)) = (roots, request)
        && let Ok(Some(answer)) = tokio::time::timeout(ROOTS_TIMEOUT, roots.roots(request)).await
        && answer
            .get("roots")
            .is_some_and(|list| list.elements(|_| {}))
    {
        return answer;
    }
    let root = project_dir.as_ref().map(|dir| {
        let name = dir.file_name().unwrap_or(dir.as_os_str());
        serde_json::json!({"uri": file_uri(dir), "name": name.to_string_lossy()})
    });
    Json::from(serde_json::json!({ "roots": Vec::from_iter(root) }))
}

/// Returns a `file://` URI; all but the unreserved characters of RFC 3986 are percent-encoded.
fn file_uri(path: &Path) -> String {
    use std::fmt::Write as _;

    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_file_uri() {
        assert_eq!(file_uri(Path::new("/a b/é.x")), "file:///a%20b/%C3%A9.x");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_an_answer_has_the_project_directory() {
        let roots: Arc<dyn Roots> = Arc::new(|request: RootsRequest| async move {
            match &*request.client {
                "own" => Some(Json::from(serde_json::json!({"roots": []}))),
                "odd" => Some(Json::empty_object()),
                "slow" => std::future::pending().await,
                _ => None,
            }
        });
        let project = r#"{"roots":[{"uri":"file:///p","name":"p"}]}"#;
        for (client, expected) in [
            (Some("own"), r#"{"roots":[]}"#),
            (Some("odd"), project),
            (Some("slow"), project),
            (Some("none"), project),
            (None, project),
        ] {
            let request = client.map(|client| RootsRequest {
                server: "s".into(),
                client: client.into(),
                input_key: None,
            });
            let dir: Arc<Path> = Path::new("/p").into();
            let answer = answer(Some(Arc::clone(&roots)), request, Some(dir)).await;
            assert_eq!(answer.as_str(), expected, "{client:?}");
        }
    }
}
