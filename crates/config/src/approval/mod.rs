//! Approval of a project's servers (CFG-6).
//!
//! `entry` is the content that an approval covers, `repository_files` finds the files that are part
//! of it (with `words`, `crude`, `listing`, `roots` and `programs`), `decision` compares entries
//! with settings and stored approvals, and `edit` writes approvals and rejections.

mod crude;
mod decision;
mod edit;
mod entry;
mod listing;
mod programs;
mod repository_files;
mod roots;
mod words;

pub use decision::ApproveAll;
pub(crate) use decision::{Approval, ApprovalSettings, ProjectApprovals, StoredApprovals};
pub use edit::ApprovalRecord;
pub use entry::{ApprovalChange, ApprovedEntry, changes_since_approval};
pub(crate) use listing::Listings;
pub(crate) use programs::{has_code_extension, is_interpreter};
pub use repository_files::RepositoryFile;
pub(crate) use repository_files::{MAX_FILES, is_path, repository_files};
