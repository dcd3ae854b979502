//! Taking back what holds somebody back.

use super::case::State;
use super::{Adaptive, decision};
use crate::roster::Member;
use crate::scheduler::Decision;
use serde_json::json;

impl Adaptive {
    /// Takes a lever back from a container; why that failed, if it did.
    pub(super) fn let_go(&mut self, lever: usize, aggressor: u32) -> Option<String> {
        // Who runs no more has nothing to be given back.
        let member = self.running.iter().find(|member| member.index == aggressor)?;
        self.levers[lever].release(member).err().map(|error| error.to_string())
    }

    /// Takes back what held others back for a container that has ended, and what held it back itself.
    pub(super) fn let_go_with(&mut self, ended: &Member) -> Vec<Decision> {
        let concerned =
            |(victim, aggressor): &(u32, u32)| *victim == ended.index || *aggressor == ended.index;
        let pulled = self.cases.iter().filter(|(key, _)| concerned(key));
        let pulled: Vec<((u32, u32), usize)> =
            pulled.filter_map(|(key, case)| Some((*key, case.pulled()?))).collect();
        let mut decisions = Vec::new();
        for ((victim, aggressor), lever) in pulled {
            let error = match aggressor == ended.index {
                // Its cgroup may be gone already, and everything with it.
                true => {
                    let _ = self.levers[lever].release(ended);
                    None
                }
                false => self.let_go(lever, aggressor),
            };
            let name = self.levers[lever].name();
            let (victim_name, aggressor_name) = (self.name_of(victim), self.name_of(aggressor));
            let message = match &error {
                None => format!("{} has ended: {name} taken back", ended.name),
                Some(error) => format!("{} has ended: {name} stays: {error}", ended.name),
            };
            let what = if error.is_none() { "released" } else { "stuck" };
            let evidence = json!({ "lever": name, "ended": &*ended.name, "error": error });
            decisions.push(decision(what, aggressor_name, victim_name, message, evidence));
            self.hope_again(aggressor);
        }
        self.cases.retain(|key, _| !concerned(key));
        self.running.retain(|member| member.index != ended.index);
        decisions
    }

    /// A lever that was pulled for another's sake can be tried again by those who gave up without it.
    fn hope_again(&mut self, aggressor: u32) {
        for ((_, who), case) in &mut self.cases {
            if *who == aggressor && matches!(case.state, State::GaveUp) {
                (case.state, case.in_a_row) = (State::Suspected, 0);
            }
        }
    }

    pub(super) fn name_of(&self, index: u32) -> String {
        let member = self.running.iter().find(|member| member.index == index);
        member.map_or_else(|| format!("container {index}"), |member| member.name.to_string())
    }
}
