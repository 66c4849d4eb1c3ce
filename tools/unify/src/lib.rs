//! Nothing but dependencies: building one crate of the workspace alone would otherwise choose fewer features
//! of shared dependencies than building all, and build the query planner a second time.
#![forbid(unsafe_code)]
