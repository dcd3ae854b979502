//! What may be otherwise by now: sources that are not heard any more, and nodes that one of them hears nothing of.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The nodes that a source tells of one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Each that it told of; since when (Unix nanoseconds) it is not known who holds what there, where that is so.
    pub known: HashMap<Arc<str>, Option<u64>>,
    /// Whether it will tell of every node there is.
    pub every: bool,
}

/// Why it is not known who held a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt<'a> {
    /// This source is not heard, and may have other news by now.
    Source(&'static str),
    /// Nothing is heard of this node, or not yet which devices a pod was given that it has just taken on.
    Node(&'a str),
    /// An owner of the pod of this name was not heard of yet; of a pod that a device leads to the name is empty.
    Owner(&'a str),
}

impl fmt::Display for Doubt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Source(name) => f.write_str(name),
            Doubt::Node(node) => write!(f, "the agent of node {node}"),
            Doubt::Owner("") => f.write_str("an owner of the pod that holds a device"),
            Doubt::Owner(pod) => write!(f, "an owner of pod {pod}"),
        }
    }
}

/// A source that is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unheard {
    pub(crate) name: &'static str,
    pub(crate) bit: u16,
    /// When it last was, Unix nanoseconds.
    pub(crate) heard_ns: u64,
}

/// All that is in doubt at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Doubts {
    pub(crate) sources: Vec<Unheard>,
    pub(crate) nodes: Arc<Nodes>,
    /// The source that tells of nodes one by one.
    pub(crate) by_node: u16,
    /// What the source follows that hears of pods as they come, where there is one.
    pub(crate) follows: Option<Follows>,
}

/// The pods that a source hears of as they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Follows {
    All,
    /// Those of this namespace.
    Namespace(Arc<str>),
}

impl Follows {
    pub(crate) fn pods_of(&self, namespace: &str) -> bool {
        match self {
            Follows::All => true,
            // Whoever names none may mean this one.
            Follows::Namespace(own) => namespace.is_empty() || **own == *namespace,
        }
    }
}

impl Doubts {
    /// Why it is not known who held the devices of a node at that moment that these sources tell of.
    pub(crate) fn of<'a>(&self, reporters: u16, node: &'a str, at_ns: u64) -> Option<Doubt<'a>> {
        let silent = self.nodes.known.get(node).copied().flatten();
        if reporters & self.by_node != 0 && silent.is_some_and(|since| since <= at_ns) {
            return Some(Doubt::Node(node));
        }
        let concerned =
            |unheard: &&Unheard| unheard.bit & reporters != 0 && unheard.heard_ns <= at_ns;
        self.sources.iter().find(concerned).map(|unheard| Doubt::Source(unheard.name))
    }

    /// Whether a source has told of this node.
    pub(crate) fn knows_node(&self, node: &str) -> bool {
        self.nodes.known.contains_key(node)
    }

    /// Whether a source will tell which devices the pods of this node were given.
    pub(crate) fn will_be_told_of(&self, node: &str) -> bool {
        self.nodes.every || self.nodes.known.contains_key(node)
    }
}
