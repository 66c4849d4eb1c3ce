mod fixture;
mod interleavings;
mod model;
mod support;
mod transactions;
