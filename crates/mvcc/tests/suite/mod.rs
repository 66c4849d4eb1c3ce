mod fixture;
mod transactions;
