mod adya;
mod fixture;
mod interleavings;
mod isolation;
mod model;
mod pruning;
mod support;
mod transactions;
