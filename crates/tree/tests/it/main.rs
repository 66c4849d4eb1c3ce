//! Trees on volumes on simulated devices, against a `BTreeMap`.

mod damage;
mod model;
mod sorting;
mod support;
