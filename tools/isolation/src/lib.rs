//! The direct serialization graph (Adya, Liskov and O'Neil, "Generalized isolation level definitions", 2000): which
//! transaction depends on which, and how. An isolation level is what cycles it lets pass. How dependencies follow from
//! a history is for each checker to say; `K` is its kinds of dependencies.

#![forbid(unsafe_code)]

/// Dependencies between transactions, which are numbered from 0.
#[derive(Clone, Debug)]
pub struct SerializationGraph<K> {
    /// By transaction: who depends on it, and how.
    edges: Vec<Vec<(usize, K)>>,
}

impl<K: Copy + PartialEq> SerializationGraph<K> {
    /// A graph of so many transactions, none of which depends on another.
    pub fn new(transactions: usize) -> Self {
        Self { edges: vec![Vec::new(); transactions] }
    }

    /// Transaction `to` depends on `from`. Told twice it counts once; what a transaction owes to itself does not count.
    pub fn add(&mut self, from: usize, to: usize, kind: K) {
        assert!(to < self.edges.len(), "transaction {to} of {}", self.edges.len());
        if from != to && !self.edges[from].contains(&(to, kind)) {
            self.edges[from].push((to, kind));
        }
    }

    /// Whether a dependency of one of the kinds `one` closes a cycle with a way of dependencies of the kinds `others`.
    pub fn has_cycle(&self, one: &[K], others: &[K]) -> bool {
        let edges = self.edges.iter().enumerate().flat_map(|(from, edges)| edges.iter().map(move |edge| (from, edge)));
        edges.filter(|(_, (_, kind))| one.contains(kind)).any(|(from, (to, _))| self.leads(*to, from, others))
    }

    /// Whether one can come from `from` to `to` by dependencies of these kinds.
    fn leads(&self, from: usize, to: usize, kinds: &[K]) -> bool {
        let (mut seen, mut todo) = (vec![false; self.edges.len()], vec![from]);
        while let Some(at) = todo.pop() {
            if at == to {
                return true;
            }
            if !std::mem::replace(&mut seen[at], true) {
                todo.extend(self.edges[at].iter().filter(|(_, kind)| kinds.contains(kind)).map(|(next, _)| *next));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize, char)]) -> SerializationGraph<char> {
        let mut graph = SerializationGraph::new(4);
        edges.iter().for_each(|(from, to, kind)| graph.add(*from, *to, *kind));
        graph
    }

    #[test]
    fn a_cycle_is_closed_by_one_kind_over_others() {
        let both = graph(&[(0, 1, 'a'), (1, 2, 'b'), (2, 0, 'b')]);
        assert!(both.has_cycle(&['a'], &['b']) && both.has_cycle(&['b'], &['a', 'b']));
        assert!(!both.has_cycle(&['b'], &['b']), "one of the three is of another kind");
        assert!(!both.has_cycle(&['c'], &['a', 'b']));
    }

    #[test]
    fn ways_that_do_not_return_are_no_cycle() {
        assert!(!graph(&[(0, 1, 'a'), (0, 2, 'a'), (1, 3, 'a'), (2, 3, 'a')]).has_cycle(&['a'], &['a']));
        assert!(!graph(&[(1, 1, 'a')]).has_cycle(&['a'], &['a']), "nobody depends on itself");
    }
}
