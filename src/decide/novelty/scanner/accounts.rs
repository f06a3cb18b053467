//! Accounts of a view: numbers found, paired with the number of their bank, and told.

use super::super::bank::{self, Number, Role};
use super::super::views::Seen;
use super::super::{Kind, iban, wallet};
use super::{Holds, ITEM_MAX, Scanner, Spent, Text, shown};
use crate::decide::text::head;

/// Numbers of one object that wait to be paired.
const PENDING_MAX: usize = 256;

/// A number in a field, waiting for the other half of its pair.
#[derive(Debug, Clone)]
pub(in super::super) struct Pending {
    number: Number,
    pointer: String,
    found: String,
}

impl Scanner<'_> {
    pub(super) fn accounts(
        &mut self,
        seen: &Seen<'_>,
        original: &str,
        text: Text<'_>,
        counts: &dyn Fn(usize, usize) -> bool,
    ) -> Holds {
        let Seen { view, outline, .. } = seen;
        let mut holds = Holds::Nothing;
        let shows: &str = &view.text;
        let place = text.place;
        let mut ibans = Vec::new();
        iban::find(shows, &outline.digits, place, &mut |iban| ibans.push(iban));
        let mut whole = false;
        for iban in ibans {
            // A joined text has the shape of a number too easily.
            if !counts(iban.start, iban.end) || (text.seams.is_some() && !iban.valid) {
                continue;
            }
            holds = holds.max(if iban.valid { Holds::Item } else { Holds::Fragment });
            whole = true;
            let hides = view.hides(iban.start, iban.end);
            if !hides && self.known.has_iban(&iban.number) {
                continue;
            }
            let kind = if iban.valid { Kind::Iban } else { Kind::BankAccount };
            let resembles = self.resembling_number(&iban.number, hides);
            self.push(
                kind,
                iban.number,
                shown(text, original, view, iban.start, iban.end),
                resembles,
            );
        }
        let mut wallets = Vec::new();
        wallet::find(shows, outline, place, &mut |wallet| wallets.push(wallet));
        for wallet in wallets {
            if !counts(wallet.start, wallet.end) {
                continue;
            }
            holds = Holds::Item;
            whole |= wallet.start == 0;
            let hides = view.hides(wallet.start, wallet.end);
            if !hides && self.known.wallets.contains(&wallet.item) {
                continue;
            }
            self.push(
                Kind::BankAccount,
                wallet.item,
                shown(text, original, view, wallet.start, wallet.end),
                None,
            );
        }
        if whole {
            return holds;
        }
        if let Some(number) =
            bank::field(shows, place).filter(|number| counts(number.start, number.end))
        {
            if self.numbers.last().is_some_and(|numbers| numbers.len() >= PENDING_MAX) {
                self.spend(Spent::Findings);
                return holds.max(Holds::Fragment);
            }
            let found = head(original, ITEM_MAX).to_owned();
            let pending = Pending { pointer: self.pointer(), found, number };
            if let Some(numbers) = self.numbers.last_mut()
                && !numbers.iter().any(|other| {
                    other.pointer == pending.pointer && other.number.digits == pending.number.digits
                })
            {
                numbers.push(pending);
            }
            return holds.max(Holds::Fragment);
        }
        let mut labelled = Vec::new();
        bank::labelled(shows, &outline.digits, &mut |number| labelled.push(number));
        labelled.retain(|number| counts(number.start, number.end));
        if !labelled.is_empty() {
            holds = Holds::Item;
            let pointer = self.pointer();
            let pending: Vec<Pending> = labelled
                .into_iter()
                .map(|number| Pending {
                    pointer: pointer.clone(),
                    found: shown(text, original, view, number.start, number.end).to_owned(),
                    number,
                })
                .collect();
            self.pair(&pending);
        }
        holds
    }

    /// Pairs each account with the bank's number next to it and reports what is novel.
    fn pair(&mut self, pending: &[Pending]) {
        let mut index = 0;
        while let Some(first) = pending.get(index) {
            index += 1;
            let second = pending.get(index);
            let is_bank = |pending: &Pending| matches!(pending.number.role, Role::Bank(_));
            match second {
                Some(second) if is_bank(first) && !is_bank(second) => {
                    index += 1;
                    self.account(second, Some(first));
                }
                Some(second)
                    if !is_bank(first) && is_bank(second) && first.number.role == Role::Account =>
                {
                    index += 1;
                    self.account(first, Some(second));
                }
                _ => self.account(first, None),
            }
        }
    }

    /// Pairs the numbers of the object that ends.
    pub(in super::super) fn settle_numbers(&mut self) {
        let Some(pending) = self.numbers.pop() else {
            return;
        };
        let (banks, accounts): (Vec<Pending>, Vec<Pending>) =
            pending.into_iter().partition(|pending| matches!(pending.number.role, Role::Bank(_)));
        if accounts.is_empty() {
            for bank in &banks {
                self.account(bank, None);
            }
        }
        for account in &accounts {
            if banks.is_empty() {
                self.account(account, None);
            }
            for bank in &banks {
                self.account(account, Some(bank));
            }
        }
    }

    fn account(&mut self, account: &Pending, bank: Option<&Pending>) {
        let known = match bank {
            Some(bank) => self.known.has_pair(&bank.number.digits, &account.number.digits),
            None => self.known.has_number(&account.number.digits),
        };
        if known {
            return;
        }
        let item = bank::item(&account.number, bank.map(|bank| &bank.number));
        self.push_at(Kind::BankAccount, item, account.pointer.clone(), &account.found);
    }
}
