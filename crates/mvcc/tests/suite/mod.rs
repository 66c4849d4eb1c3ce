mod fixture;
mod interleavings;
mod support;
mod transactions;
