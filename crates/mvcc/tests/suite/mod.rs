mod adya;
mod fixture;
mod interleavings;
mod isolation;
mod model;
mod support;
mod transactions;
