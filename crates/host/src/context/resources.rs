//! Resources: their list, their contents, and their changes (CTX-1).

use std::sync::Arc;

use trunkline_wire::mcp::{ReadResourceResult, Resource, ResourceContent, ResourceTemplate};
use trunkline_wire::{Json, RequestError};

use super::ReadOptions;
use super::request::{ReadRequest, connected, failed};
use super::uri;
use crate::call::CallError;
use crate::host::Host;
use crate::sanitize::shown;

/// A resource of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerResource {
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The resource as listed.
    pub resource: Resource,
}

/// A resource template of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerTemplate {
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The template as listed.
    pub template: ResourceTemplate,
}

/// The contents of a resource.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceContents {
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The requested URI.
    pub uri: String,
    /// The contents in the server's order: several if the resource is something like a directory.
    pub contents: Vec<ResourceContent>,
    /// Irregularities of the contents.
    pub warnings: Vec<String>,
    /// The whole result as the server sent it.
    pub raw: Json,
}

impl Host {
    /// Returns the resources of all servers, by server.
    pub fn resources(&self) -> Vec<ServerResource> {
        let servers = self.servers();
        let of = servers.iter().flat_map(|status| {
            let resources = status.catalog.resources.iter();
            resources.map(|resource| ServerResource {
                server: Arc::clone(&status.name),
                resource: resource.clone(),
            })
        });
        of.collect()
    }

    /// Returns the resource templates of all servers, by server.
    pub fn resource_templates(&self) -> Vec<ServerTemplate> {
        let servers = self.servers();
        let of = servers.iter().flat_map(|status| {
            let templates = status.catalog.templates.iter();
            templates.map(|template| ServerTemplate {
                server: Arc::clone(&status.name),
                template: template.clone(),
            })
        });
        of.collect()
    }

    /// Reads a resource, listed or not: the server decides what it has. Contents that the server
    /// declares fresh are not fetched again.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        options: ReadOptions<'_>,
    ) -> Result<ResourceContents, CallError> {
        uri::check(uri)?;
        let connection = self.connection_to(server)?;
        let result = if let Some(result) = connection.cached_read(uri) {
            result
        } else {
            let request = ReadRequest::Resource(uri);
            let result = self
                .send_read(server, &connection, request, options)
                .await?;
            connection.cache_read(uri, &result);
            result
        };
        contents(server, uri, &result).map_err(|problem| {
            let subject = ReadRequest::Resource(uri).to_string();
            failed(
                server,
                &connection,
                subject,
                RequestError::Malformed(problem),
            )
        })
    }

    /// Subscribes to changes of a resource, which
    /// [`Changes::resources_updated`](crate::event::Changes::resources_updated) reports. The
    /// subscription outlives the connection: after a reconnect, every subscribed resource counts as
    /// changed. Each call needs its own [`Host::unsubscribe`].
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<(), CallError> {
        uri::check(uri)?;
        let connection = self.connection_to(server)?;
        let deadline = self.request_deadline(&connection, None);
        let connected = connected(server, &connection, deadline).await?;
        if !connected.identity().capabilities.subscribe {
            return Err(CallError::unsupported(
                server,
                "does not tell when its resources change",
            ));
        }
        let watching = connection.subscribe(&connected, uri, deadline).await;
        watching.map_err(|error| {
            let subject = format!("a subscription to {uri}");
            failed(server, &connection, subject, error)
        })
    }

    /// Undoes one [`Host::subscribe`].
    pub async fn unsubscribe(&self, server: &str, uri: &str) {
        if let Some(connection) = self.connection(server) {
            connection.unsubscribe(uri).await;
        }
    }
}

fn contents(server: &str, uri: &str, result: &Json) -> Result<ResourceContents, String> {
    let ReadResourceResult { contents, invalid } = ReadResourceResult::from_json(result, uri)?;
    let mut warnings: Vec<String> = invalid
        .iter()
        .map(|invalid| format!("content {} was left out: {}", invalid.index, invalid.reason))
        .collect();
    let below = |other: &str| {
        let directory = uri.strip_suffix('/').unwrap_or(uri);
        other == uri
            || other
                .strip_prefix(directory)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    let foreign = contents.iter().filter(|content| !below(&content.uri));
    warnings.extend(foreign.map(|content| {
        let other = shown(&content.uri).0;
        format!("the server gave the content of {other} for {uri}")
    }));
    Ok(ResourceContents {
        server: server.into(),
        uri: uri.to_owned(),
        contents,
        warnings,
        raw: result.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_another_resource_are_kept_and_told() {
        let result = serde_json::json!({"contents": [{"uri": "a:/d/x", "text": "1"}, {"uri": "a:/dd", "text": "2"}, 7]});
        let read = contents("s", "a:/d", &Json::from(result)).unwrap();
        assert_eq!(read.contents.len(), 2);
        assert_eq!(
            read.warnings,
            [
                "content 2 was left out: it is not an object",
                "the server gave the content of a:/dd for a:/d"
            ]
        );
        assert!(contents("s", "a:/d", &Json::empty_object()).is_err());
    }
}
