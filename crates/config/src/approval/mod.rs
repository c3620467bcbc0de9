//! Approval of a project's servers (CFG-6).
//!
//! `entry` is the content that an approval covers, `repository_files` finds the files that are part
//! of it, `decision` compares entries with settings and stored approvals, and `edit` writes
//! approvals and rejections.

mod decision;
mod edit;
mod entry;
mod repository_files;

pub use decision::ApproveAll;
pub(crate) use decision::{Approval, ApprovalSettings, ProjectApprovals, StoredApprovals};
pub use edit::ApprovalRecord;
pub use entry::{ApprovalChange, ApprovedEntry, changes_since_approval};
pub use repository_files::RepositoryFile;
pub(crate) use repository_files::{MAX_FILES, has_code_extension, is_path, repository_files};
