mod fixture;
mod pruning;
mod transactions;
