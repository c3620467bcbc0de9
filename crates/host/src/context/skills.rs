//! Skills: instructions that servers offer to a model, read on demand (CTX-3).
//!
//! A server with the skills extension lists them, with the digest of each file. For other servers,
//! each resource `skill://…/SKILL.md` counts as a skill that cannot be verified. Listing reads no
//! file.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;
use trunkline_wire::mcp::{Resource, ResourceContent, Skill};
use trunkline_wire::{Json, RequestError};

use super::ReadOptions;
use super::request::{connected, failed};
use super::{uri, verify};
use crate::call::{CallError, Cause};
use crate::connection::ServerStatus;
use crate::host::Host;
use crate::sanitize::{Removed, one_line, sanitize, shown, strip_hidden};

/// The end of a skill's URI.
const SKILL_FILE: &str = "/SKILL.md";

/// A skill of a server. Names are not unique: the server and the URI identify a skill.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerSkill {
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The skill as listed; untrusted text. The description is sanitised, the frontmatter is not.
    pub skill: Skill,
    /// Whether the server lists it as a skill, so that its files can be verified; otherwise it is a
    /// resource that looks like one.
    pub listed: bool,
}

/// The skills of all servers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Skills {
    /// The skills, by server.
    pub skills: Vec<ServerSkill>,
    /// Errors of servers whose skills could not be listed.
    pub problems: Vec<String>,
}

/// A skill that has been read and, if listed, verified. Its text is as untrusted as any other
/// text of a server; nothing in its frontmatter, such as `allowed-tools`, has any effect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedSkill {
    /// The server's name as configured.
    pub server: Arc<str>,
    /// The skill's name.
    pub name: String,
    /// The URI of its `SKILL.md`.
    pub uri: String,
    /// The text of its `SKILL.md` without hidden characters; untrusted.
    pub text: String,
}

impl ServerSkill {
    /// Returns a skill as a model sees it (TOOL-3); an error if its URI has hidden characters.
    fn new(server: &Arc<str>, skill: Skill, listed: bool) -> Result<Self, String> {
        if !sanitize(&skill.uri).1.is_empty() {
            return Err("its uri has hidden characters".to_owned());
        }
        Ok(Self {
            server: Arc::clone(server),
            skill: Skill {
                name: one_line(&skill.name).0.into_owned(),
                description: shown(&skill.description).0.into_owned(),
                ..skill
            },
            listed,
        })
    }
}

impl Host {
    /// Returns the skills of all servers. Requests lists of skills, but reads no files.
    pub async fn skills(&self) -> Skills {
        let mut servers = self.servers();
        // Skills of a denied server cannot be read, so they are not offered.
        servers.retain(|status| self.guard().denial_of_server(&status.name).is_none());
        let all = join_all(servers.iter().map(|status| self.skills_of(status))).await;
        let mut found = Skills::default();
        for (status, of) in servers.iter().zip(all) {
            match of {
                Ok(mut of) => {
                    found.skills.append(&mut of.skills);
                    found.problems.append(&mut of.problems);
                }
                Err(error) => found
                    .problems
                    .push(format!("server \"{}\": {error}", status.name)),
            }
        }
        found
    }

    async fn skills_of(&self, status: &ServerStatus) -> Result<Skills, CallError> {
        let server = &status.name;
        let identity = status.catalog.identity.as_ref();
        if !identity.is_some_and(|identity| identity.capabilities.skills) {
            let skills = status.catalog.resources.iter().filter_map(|resource| {
                ServerSkill::new(server, looks_like_skill(resource)?, false).ok()
            });
            return Ok(Skills {
                skills: skills.collect(),
                problems: Vec::new(),
            });
        }
        let connection = self.connection_to(server)?;
        let deadline = self.request_deadline(&connection, None);
        let connected = connected(server, &connection, deadline).await?;
        let listing = connected.client.list_skills(Some(deadline)).await;
        let listing = listing
            .map_err(|error| failed(server, &connection, "the list of skills".to_owned(), error))?;
        let bad = listing.invalid.iter().map(|bad| {
            format!(
                "server \"{server}\": skill {} was left out: {}",
                bad.index, bad.reason
            )
        });
        let warnings = listing.warnings.iter();
        let warnings = warnings.map(|warning| format!("server \"{server}\": skills: {warning}"));
        let mut found = Skills {
            problems: bad.chain(warnings).collect(),
            skills: Vec::new(),
        };
        for skill in listing.items {
            let name = one_line(&skill.name).0.into_owned();
            match ServerSkill::new(server, skill, true) {
                Ok(skill) => found.skills.push(skill),
                Err(reason) => found.problems.push(format!(
                    "server \"{server}\": the skill \"{name}\" was left out: {reason}"
                )),
            }
        }
        Ok(found)
    }

    /// Requests the current description of the skill whose `SKILL.md` is at `uri`, listed or not.
    pub async fn skill(&self, server: &str, uri: &str) -> Result<ServerSkill, CallError> {
        uri::check(uri)?;
        let connection = self.connection_to(server)?;
        let deadline = self.request_deadline(&connection, None);
        let connected = connected(server, &connection, deadline).await?;
        if !connected.identity().capabilities.skills {
            return Err(CallError::unsupported(server, "lists no skills"));
        }
        let got = connected.client.get_skill(uri, Some(deadline)).await;
        let skill =
            got.map_err(|error| failed(server, &connection, format!("the skill {uri}"), error))?;
        ServerSkill::new(&server.into(), skill, true).map_err(|reason| {
            let error = RequestError::Malformed(reason);
            failed(server, &connection, format!("the skill {uri}"), error)
        })
    }

    /// Reads a skill and verifies size, digest and frontmatter against the list. A mismatch is an
    /// error.
    pub async fn load_skill(
        &self,
        skill: &ServerSkill,
        options: ReadOptions<'_>,
    ) -> Result<LoadedSkill, CallError> {
        let uri = &*skill.skill.uri;
        let bytes = self.skill_bytes(skill, uri, options).await?;
        let text =
            String::from_utf8(bytes).map_err(|_| unverified(skill, "its SKILL.md is not text"))?;
        if skill.listed {
            let found = verify::frontmatter(&text).map_err(|reason| unverified(skill, &reason))?;
            let listed = skill.skill.frontmatter.to_value();
            let Ok(Value::Object(listed)) = listed else {
                return Err(unverified(skill, "its listed frontmatter is none"));
            };
            if let Some(member) = verify::difference(&found, &listed) {
                let reason = format!(
                    "\"{member}\" in the frontmatter of its SKILL.md is not what is listed"
                );
                return Err(unverified(skill, &reason));
            }
        }
        Ok(LoadedSkill {
            server: Arc::clone(&skill.server),
            name: skill.skill.name.clone(),
            uri: uri.to_owned(),
            text: strip_hidden(&text, &mut Removed::default()).into_owned(),
        })
    }

    /// Reads a file of a skill and verifies it against the list. Files that are not listed are not
    /// read.
    pub async fn read_skill_file(
        &self,
        skill: &ServerSkill,
        uri: &str,
        options: ReadOptions<'_>,
    ) -> Result<Vec<u8>, CallError> {
        self.skill_bytes(skill, uri, options).await
    }

    async fn skill_bytes(
        &self,
        skill: &ServerSkill,
        uri: &str,
        options: ReadOptions<'_>,
    ) -> Result<Vec<u8>, CallError> {
        let files = skill.skill.files.as_ref();
        let listed = files.map(|files| files.iter().find(|file| file.uri == uri));
        let inside = uri.strip_prefix(root(&skill.skill.uri));
        let inside = inside.is_some_and(|path| path.starts_with('/') && !has_dots(path));
        if listed == Some(None) || !inside {
            return Err(unverified(skill, &format!("{uri} is not one of its files")));
        }
        let read = self.read_resource(&skill.server, uri, options).await?;
        let is_it = |content: &&ResourceContent| &*content.uri == uri;
        let Some(content) = read.contents.iter().find(is_it) else {
            return Err(unverified(skill, &format!("{uri} has no content")));
        };
        let bytes = verify::bytes(content).map_err(|reason| unverified(skill, &reason))?;
        if let Some(Some(listed)) = listed {
            verify::check(listed, &bytes).map_err(|reason| unverified(skill, &reason))?;
        }
        Ok(bytes)
    }
}

fn has_dots(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Returns the directory of a skill.
fn root(uri: &str) -> &str {
    uri.strip_suffix(SKILL_FILE).unwrap_or(uri)
}

fn unverified(skill: &ServerSkill, reason: &str) -> CallError {
    CallError::from(Cause::Unverified {
        server: skill.server.to_string(),
        skill: skill.skill.name.clone(),
        reason: shown(reason).0.into_owned(),
    })
}

/// Returns the skill for a resource with the URI of one, for servers that list none.
fn looks_like_skill(resource: &Resource) -> Option<Skill> {
    let path = resource.uri.strip_prefix("skill://")?;
    let directory = path.strip_suffix(SKILL_FILE)?;
    let name = directory
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())?;
    Some(Skill {
        uri: resource.uri.clone(),
        name: name.to_owned(),
        description: resource.raw.field("description").unwrap_or_default(),
        frontmatter: Json::empty_object(),
        files: None,
    })
}

#[cfg(test)]
mod tests {
    use trunkline_wire::mcp::Item;

    use super::*;

    #[test]
    fn a_resource_looks_like_a_skill_by_its_address() {
        let name = |uri: &str| {
            let raw = serde_json::json!({"uri": uri, "description": "d"});
            let skill = looks_like_skill(&Resource::from_json(raw.into()).unwrap());
            skill.map(|skill| skill.name)
        };
        assert_eq!(name("skill://a/SKILL.md").as_deref(), Some("a"));
        assert_eq!(name("skill://x/y/a/SKILL.md").as_deref(), Some("a"));
        for uri in [
            "skill://a/README.md",
            "skill:///SKILL.md",
            "skill://SKILL.md",
            "file:///a/SKILL.md",
        ] {
            assert_eq!(name(uri), None, "{uri}");
        }
    }
}
