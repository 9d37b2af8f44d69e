//! The requests that wait, shared fairly between clients.
//!
//! Each client has a counter of the tokens that it was served, and the next request is the first one of the client
//! that was served least (the virtual token counter of "Fairness in Serving Large Language Models", Sheng et al.
//! 2024). A client that returns after it had no request gets at least the smallest counter of the active clients, so
//! that it cannot claim the time of its absence. Requests of one client stay in their order.

use std::collections::{HashMap, VecDeque};

use crate::request::{ClientId, RequestId, Sequence};

/// A client and its waiting requests.
#[derive(Debug, Default)]
struct Client {
    /// Its requests that have not run, in the order of their arrival.
    new: VecDeque<Sequence>,
    /// The tokens that it was served: computed ones of prompts and generated ones.
    served: u64,
    /// Of these, prompts that were admitted but of which nothing has run: the cache may have more of them by then.
    unsettled: u64,
    /// The number of the admission of its last request, counted over all clients.
    last_admission: u64,
    /// Its requests that wait or run.
    active: usize,
}

/// The waiting requests.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Requests that ran and start over, before all others: their clients were charged for them.
    resumed: VecDeque<Sequence>,
    /// All active clients, and those that left with more than they would get back by returning.
    clients: HashMap<ClientId, Client>,
    admissions: u64,
}

impl Queue {
    /// Returns the number of waiting requests.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Returns the waiting requests.
    pub fn iter(&self) -> impl Iterator<Item = &Sequence> {
        let new = self.clients.values().flat_map(|client| &client.new);
        self.resumed.iter().chain(new)
    }

    /// Returns the smallest counter of the clients with requests, without what may be taken back.
    fn least_served(&self) -> Option<u64> {
        let active = self.clients.values().filter(|client| client.active > 0);
        active.map(|client| client.served - client.unsettled).min()
    }

    /// Adds a new request.
    pub fn push(&mut self, sequence: Sequence) {
        let least = self.least_served().unwrap_or_default();
        let client = self.clients.entry(sequence.client).or_default();
        if client.active == 0 {
            client.served = client.served.max(least);
        }
        client.active += 1;
        client.new.push_back(sequence);
    }

    /// Puts a request that ran before all others.
    pub fn push_resumed(&mut self, sequence: Sequence) {
        self.resumed.push_front(sequence);
    }

    /// Returns the client whose first new request is admitted next.
    fn next_client(&self) -> Option<ClientId> {
        let waiting = self.clients.iter().filter_map(|(id, client)| {
            // Clients with equal counters take turns.
            let order = (client.served, client.last_admission, client.new.front()?.id);
            Some((order, *id))
        });
        waiting.min().map(|(_, id)| id)
    }

    /// Returns the request that is admitted next.
    pub fn peek(&self) -> Option<&Sequence> {
        match self.resumed.front() {
            Some(resumed) => Some(resumed),
            None => self.clients.get(&self.next_client()?)?.new.front(),
        }
    }

    /// Takes the request that [`Self::peek`] returns. `computed` tokens of its prompt are not in the cache: its client
    /// is charged for them, unless the request ran before.
    pub fn pop(&mut self, computed: usize) -> Option<Sequence> {
        if let Some(resumed) = self.resumed.pop_front() {
            return Some(resumed);
        }
        let id = self.next_client()?;
        let client = self.clients.get_mut(&id)?;
        self.admissions += 1;
        client.last_admission = self.admissions;
        client.served = client.served.saturating_add(computed as u64);
        client.unsettled += computed as u64;
        client.new.pop_front()
    }

    /// Counts tokens that a client was served.
    pub fn charge(&mut self, client: ClientId, tokens: usize) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.served = client.served.saturating_add(tokens as u64);
        }
    }

    /// Takes back what a client was charged for `tokens` tokens of a prompt that the cache has by now.
    pub fn refund(&mut self, client: ClientId, tokens: usize) {
        if let Some(client) = self.clients.get_mut(&client) {
            let tokens = (tokens as u64).min(client.unsettled);
            client.unsettled -= tokens;
            client.served -= tokens;
        }
    }

    /// Takes note that what a client was charged for `tokens` tokens of a prompt stays.
    pub fn settle(&mut self, client: ClientId, tokens: usize) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.unsettled = client.unsettled.saturating_sub(tokens as u64);
        }
    }

    /// Removes a waiting request. Returns false if there is no such request.
    pub fn remove(&mut self, id: RequestId) -> bool {
        let new = self.clients.values_mut().map(|client| &mut client.new);
        let mut lists = std::iter::once(&mut self.resumed).chain(new);
        let removed = lists.find_map(|list| {
            let at = list.iter().position(|sequence| sequence.id == id)?;
            list.remove(at)
        });
        match removed {
            Some(sequence) => {
                self.end(&sequence);
                true
            }
            None => false,
        }
    }

    /// Takes note that a request has ended.
    pub fn end(&mut self, sequence: &Sequence) {
        if sequence.prefix_hit.is_some() && !sequence.has_run {
            self.settle(sequence.client, sequence.unshared());
        }
        let Some(ended) = self.clients.get_mut(&sequence.client) else {
            return;
        };
        ended.active = ended.active.saturating_sub(1);
        if ended.active > 0 {
            return;
        }
        // Those whose counters would be raised when they return are forgotten; all are when nobody is left.
        let least = self.least_served().unwrap_or(u64::MAX);
        self.clients
            .retain(|_, client| client.active > 0 || client.served > least);
    }

    /// Returns the number of clients that are remembered.
    #[cfg(test)]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}
