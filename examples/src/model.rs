//! The way to a model behind HTTP, and the events it streams back.

use std::collections::VecDeque;
use std::env;

use serde_json::Value;

/// Whatever went wrong.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A model's API.
pub struct Model {
    client: reqwest::Client,
    url: String,
    headers: Vec<(&'static str, String)>,
}

impl Model {
    /// The API at `url`, with `headers` on every request.
    pub fn new(url: String, headers: Vec<(&'static str, String)>) -> Result<Self> {
        // The first one in wins; there is nobody else here.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            client: reqwest::Client::builder().build()?,
            url,
            headers,
        })
    }

    /// Sends a request and reads the events of the answer as they come.
    pub async fn stream(&self, request: &Value) -> Result<Events> {
        let mut post = self.client.post(&self.url).body(request.to_string());
        post = post.header("content-type", "application/json");
        for (name, value) in &self.headers {
            post = post.header(*name, value);
        }
        let answer = post.send().await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the model answered {status}: {}", answer.text().await?).into());
        }
        Ok(Events {
            answer,
            unread: Vec::new(),
            ready: VecDeque::new(),
        })
    }
}

/// A variable, or what it is by default; an error says which one is missing.
pub fn variable(name: &str, default: Option<&str>) -> Result<String> {
    match (env::var(name), default) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(default)) => Ok(default.to_owned()),
        (Err(_), None) => Err(format!("set {name}").into()),
    }
}

/// The events of one answer: the JSON behind each `data:`.
pub struct Events {
    answer: reqwest::Response,
    unread: Vec<u8>,
    ready: VecDeque<Value>,
}

impl Events {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(piece) = self.answer.chunk().await? else {
                return Ok(None);
            };
            self.unread.extend_from_slice(&piece);
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let data = line.strip_prefix("data:").map(str::trim);
                if let Some(data) = data.filter(|data| *data != "[DONE]") {
                    self.ready.push_back(serde_json::from_str(data)?);
                }
            }
        }
    }
}
