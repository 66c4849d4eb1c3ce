//! Descents from the root.

use super::Index;
use super::node::Node;
use super::node::latch::Restart;
use super::search;
use crate::sync::Ordering;

/// A node on the way to a leaf, and which of its children the way goes on by; in a leaf, the place of the key.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) node: Node,
    pub(crate) version: u64,
    pub(crate) at: usize,
}

impl Index {
    /// The root and its version.
    #[inline(always)]
    pub(crate) fn root(&self) -> Result<(Node, u64), Restart> {
        let (root, version, _) = self.root_and_anchor()?;
        Ok((root, version))
    }

    /// The root, its version, and the version of what stands above it.
    #[inline(always)]
    pub(crate) fn root_and_anchor(&self) -> Result<(Node, u64, u64), Restart> {
        let latch = self.anchor.latch();
        let anchored = latch.read()?;
        // SAFETY: only addresses of nodes are written there. Acquire: what the node's maker wrote is there.
        let root = unsafe { Node::from_address(self.anchor.root.load(Ordering::Acquire)) };
        let version = root.read()?;
        latch.validate(anchored)?;
        Ok((root, version, anchored))
    }

    /// The leaf that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, key: &[u8]) -> Result<(Node, u64), Restart> {
        let (mut node, mut version) = self.root()?;
        loop {
            let shape = node.shape();
            if shape.level() == 0 {
                return Ok((node, version));
            }
            let at = search::child_of(node, shape, key)?;
            (node, version) = enter(node, node.child(shape, at, version)?, version)?;
        }
    }

    /// The way to the leaf that is responsible for `key`; returns the version of what stands above the root.
    pub(crate) fn path_to(&self, key: &[u8], path: &mut Vec<Step>) -> Result<u64, Restart> {
        path.clear();
        let (mut node, mut version, anchored) = self.root_and_anchor()?;
        loop {
            let shape = node.shape();
            if shape.level() == 0 {
                let at = search::locate(node, shape, key)?.at;
                path.push(Step { node, version, at });
                return Ok(anchored);
            }
            let at = search::child_of(node, shape, key)?;
            path.push(Step { node, version, at });
            (node, version) = enter(node, node.child(shape, at, version)?, version)?;
        }
    }
}

/// Goes from a node of `version` to its `child`: once the child's version is known, the way to it was still right.
#[inline(always)]
pub(crate) fn enter(node: Node, child: Node, version: u64) -> Result<(Node, u64), Restart> {
    let child_version = child.read()?;
    node.validate(version)?;
    Ok((child, child_version))
}
