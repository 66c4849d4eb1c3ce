mod fixture;
mod interleavings;
mod model;
mod pruning;
mod support;
mod transactions;
