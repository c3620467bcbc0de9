//! Paginated lists.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytestring::ByteString;
use tokio::time::Instant;

use super::Client;
use crate::json::{Json, ObjectWriter};
use crate::mcp::{InvalidItem, Item, ListKind, MAX_ITEMS, Page};
use crate::offload::offload;
use crate::peer::RequestError;

/// The maximum number of pages in a list (SEC-4).
pub const MAX_PAGES: usize = 1000;
/// The maximum length of a cursor (SEC-4).
pub const MAX_CURSOR_BYTES: usize = 64 * 1024;

/// The maximum total size of the pages of a list (SEC-4).
pub const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;
/// The maximum total size of all lists of a server (SEC-4).
pub const MAX_CATALOG_BYTES: usize = 128 * 1024 * 1024;

/// The bytes left for the lists of one server.
#[derive(Debug)]
pub struct CatalogBudget(AtomicUsize);

impl Default for CatalogBudget {
    fn default() -> Self {
        Self(AtomicUsize::new(MAX_CATALOG_BYTES))
    }
}

impl CatalogBudget {
    /// Takes bytes from the budget. Returns false if they exceed it.
    fn take(&self, bytes: usize) -> bool {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
        left.is_ok()
    }
}

/// A complete list.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    /// The valid items, in the order of the server.
    pub items: Vec<T>,
    /// The invalid items. Positions count across pages.
    pub invalid: Vec<InvalidItem>,
    /// Warnings about the list as a whole.
    pub warnings: Vec<String>,
    /// The time for which the list is fresh, in milliseconds: the minimum of its pages.
    pub ttl_ms: Option<u64>,
    /// Whether a later page could not be fetched.
    pub incomplete: bool,
    /// The total size of the pages.
    pub bytes: usize,
}

impl Client {
    /// Fetches all pages of a list. If a later page fails, keeps the earlier ones and adds a
    /// warning.
    pub async fn list<T: Item>(
        &self,
        kind: ListKind,
        deadline: Option<Instant>,
    ) -> Result<Listing<T>, RequestError> {
        self.list_within(kind, deadline, &CatalogBudget::default())
            .await
    }

    /// Like [`Client::list`], with a budget shared by several lists.
    pub async fn list_within<T: Item>(
        &self,
        kind: ListKind,
        deadline: Option<Instant>,
        budget: &CatalogBudget,
    ) -> Result<Listing<T>, RequestError> {
        self.list_by(kind.method(), kind.member(), deadline, budget)
            .await
    }

    /// Like [`Client::list`], for any paginated method.
    pub(super) async fn list_by<T: Item>(
        &self,
        method: &'static str,
        member: &'static str,
        deadline: Option<Instant>,
        budget: &CatalogBudget,
    ) -> Result<Listing<T>, RequestError> {
        let mut listing = Listing {
            items: Vec::new(),
            invalid: Vec::new(),
            warnings: Vec::new(),
            ttl_ms: None,
            incomplete: false,
            bytes: 0,
        };
        let mut seen = HashSet::new();
        let mut cursor: Option<ByteString> = None;
        for page in 0..MAX_PAGES {
            let mut params = ObjectWriter::new();
            if let Some(cursor) = &cursor {
                params.string("cursor", cursor);
            }
            let fetched = match self.request(method, params, deadline).await {
                Ok(result) => {
                    let bytes = result.as_str().len();
                    listing.bytes += bytes;
                    if listing.bytes > MAX_LIST_BYTES || !budget.take(bytes) {
                        Err(RequestError::Malformed(format!(
                            "the list exceeds {} MB, or all lists together exceed {} MB",
                            MAX_LIST_BYTES >> 20,
                            MAX_CATALOG_BYTES >> 20
                        )))
                    } else {
                        read(member, result).await
                    }
                }
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
            let before = listing.items.len() + listing.invalid.len();
            listing
                .invalid
                .extend(fetched.invalid.into_iter().map(|invalid| InvalidItem {
                    index: before + invalid.index,
                    ..invalid
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
            let entries = listing.items.len() + listing.invalid.len();
            let stop = match &cursor {
                _ if fetched.truncated => "it has too many entries",
                None if fetched.invalid_cursor => "its cursor is not a string",
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

/// Parses a page, on the blocking pool if it is large.
async fn read<T: Item>(member: &'static str, result: Json) -> Result<Page<T>, RequestError> {
    let bytes = result.as_str().len();
    let page = offload(bytes, move || Page::from_member(member, &result)).await;
    page.unwrap_or_else(|error| Err(error.to_string()))
        .map_err(RequestError::Malformed)
}
