//! Whole lists, page by page.

use std::collections::HashSet;

use bytestring::ByteString;
use tokio::time::Instant;

use super::Client;
use crate::json::ObjectWriter;
use crate::mcp::{BadItem, Item, ListKind, MAX_ITEMS, Page};
use crate::peer::RequestError;

/// How many pages one list may have (SEC-4).
pub const MAX_PAGES: usize = 1000;
/// How long a cursor may be (SEC-4).
pub const MAX_CURSOR_BYTES: usize = 64 * 1024;

/// A whole list.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    /// The good entries, in the server's order.
    pub items: Vec<T>,
    /// The bad ones; their places count over all pages.
    pub bad: Vec<BadItem>,
    /// What was odd about the list as a whole.
    pub warnings: Vec<String>,
    /// How long the server says it stays fresh, in milliseconds: the shortest of its pages.
    pub ttl_ms: Option<u64>,
    /// A later page could not be had.
    pub incomplete: bool,
}

impl Client {
    /// Fetches a whole list. What was fetched before a later page failed is kept, with a warning.
    pub async fn list<T: Item>(
        &self,
        kind: ListKind,
        deadline: Option<Instant>,
    ) -> Result<Listing<T>, RequestError> {
        self.list_by(kind.method(), kind.member(), deadline).await
    }

    /// As [`Client::list`], by any method that gives pages of a list.
    pub(super) async fn list_by<T: Item>(
        &self,
        method: &'static str,
        member: &str,
        deadline: Option<Instant>,
    ) -> Result<Listing<T>, RequestError> {
        let mut listing = Listing {
            items: Vec::new(),
            bad: Vec::new(),
            warnings: Vec::new(),
            ttl_ms: None,
            incomplete: false,
        };
        let mut seen = HashSet::new();
        let mut cursor: Option<ByteString> = None;
        for page in 0..MAX_PAGES {
            let mut params = ObjectWriter::new();
            if let Some(cursor) = &cursor {
                params.string("cursor", cursor);
            }
            let fetched = match self.request(method, params, deadline).await {
                Ok(result) => Page::read_member(member, &result).map_err(RequestError::Malformed),
                Err(error) => Err(error),
            };
            let fetched: Page<T> = match fetched {
                Ok(fetched) => fetched,
                Err(error) if page == 0 => return Err(error),
                Err(error) => {
                    listing
                        .warnings
                        .push(format!("page {} could not be read: {error}", page + 1));
                    listing.incomplete = true;
                    return Ok(listing);
                }
            };
            let before = listing.items.len() + listing.bad.len();
            listing
                .bad
                .extend(fetched.bad.into_iter().map(|bad| BadItem {
                    index: before + bad.index,
                    ..bad
                }));
            if listing.items.is_empty() {
                listing.items = fetched.items;
            } else {
                listing.items.extend(fetched.items);
            }
            listing.ttl_ms = match (listing.ttl_ms, fetched.ttl_ms) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            cursor = fetched.next_cursor;
            let entries = listing.items.len() + listing.bad.len();
            let stop = match &cursor {
                _ if fetched.cut => "it has too many entries",
                None if fetched.odd_cursor => "its cursor is not a string",
                None => return Ok(listing),
                Some(next) if next.len() > MAX_CURSOR_BYTES => "its cursor is too long",
                Some(next) if !seen.insert(next.clone()) => "its cursor repeats",
                Some(_) if entries >= MAX_ITEMS => "it has too many entries",
                Some(_) => continue,
            };
            listing
                .warnings
                .push(format!("the list was cut after page {}: {stop}", page + 1));
            return Ok(listing);
        }
        listing
            .warnings
            .push(format!("the list was cut after {MAX_PAGES} pages"));
        Ok(listing)
    }
}
