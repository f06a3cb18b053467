//! What is kept of a judgement: all facts in the record, and the rest sealed.

use approver::decide::policy::{Class, Mode, parse_text};
use approver::decide::request::{Door, Origin};
use approver::judge::scripted::Move;
use approver::store::{Approval, Listing, Status};
use serde_json::json;

use super::super::on_both_stores;
use super::super::world::{ORGANISATION, World};
use super::{APPROVES, NOTE, approval_id, call, content, note, only, request};

async fn stored(world: &World, id: &str) -> Approval {
    world.store.approval(ORGANISATION, id).await.unwrap().expect("an approval")
}

async fn an_automatic_approval_records_all_facts(world: World) {
    let token = world.gateway().await;
    let mut body = request(&[note("c1")]);
    body["calls"][0]["timeout_seconds"] = json!(30);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    let approval = stored(&world, &approval_id(only(&answer))).await;
    assert_eq!(approval.status, Status::Approved);
    let decision = approval.decision.clone().unwrap();
    assert_eq!(decision.by.as_deref(), Some("auto:approver"));
    assert_eq!(decision.reason.as_deref(), Some("The user asked for this note."));
    let facts = &approval.facts;
    assert!(facts.id.starts_with("apreq_"));
    assert_eq!((facts.door, facts.instance.as_deref()), (Door::Gateway, None));
    assert_eq!((facts.agent.as_str(), facts.version.as_str()), ("erp", "7"));
    assert_eq!(facts.surface, "responses");
    assert_eq!(facts.conversation, "conv_1");
    assert_eq!(facts.turn, "resp_1");
    assert_eq!(facts.call_id, "c1");
    assert_eq!(facts.user.as_deref(), Some("usr_81"));
    assert_eq!((facts.tool.name.as_str(), facts.tool.origin), ("note_add", Origin::Function));
    let version = world.service.version(ORGANISATION, "erp", "7").await.unwrap();
    let tool = version.content.agent.tools.iter().find(|tool| tool.name == "note_add").unwrap();
    assert_eq!(facts.tool.definition, tool.definition_digest());
    assert_eq!(facts.tool_version.as_deref(), Some("2"));
    assert_eq!((facts.class, facts.mode), (Some(Class::Write), Mode::Auto));
    assert_eq!(facts.timeout_seconds, Some(30));
    assert_eq!((facts.pause_reason.as_deref(), facts.pause_sentence.as_deref()), (None, None));
    let judged = facts.judged.clone().unwrap();
    assert_eq!(judged.model, "scripted");
    assert_eq!(judged.reason.as_deref(), Some("The user asked for this note."));
    assert_eq!(facts.findings, []);
    assert_eq!(facts.detectors, approver::decide::novelty::VERSION);
    // printf '%s' '{"contact":"C-1042","text":"call back Monday"}' | sha256sum
    let digest = "0e11eb42e828fd5ce72d26b5e67f21e22056d78091bf3e77e95b27e5e861cb1d";
    assert_eq!(facts.arguments_digest, digest);
    let policy = parse_text(&content()["policy"].to_string()).unwrap();
    assert_eq!(facts.policy_digest, Some(policy.digest()));
    assert_eq!(facts.lists_digest, Some(policy.lists.digest()));

    let input = world.service.open_input(&approval).await.unwrap().unwrap();
    assert_eq!(input.arguments, NOTE);
    assert_eq!(input.key_id, "k1");
    let pointers: Vec<&str> = input.provenance.iter().map(|one| one.pointer.as_str()).collect();
    assert_eq!(pointers, ["/contact", "/text"]);
    assert_eq!((input.provenance[0].source.as_str(), input.provenance[0].index), ("user", Some(1)));
    assert_eq!(input.evidence[0].quote, "Note on C-1042: call back Monday");
    assert_eq!(input.evidence[0].covers, ["", "/contact", "/text"]);
    let shown = input.prompt.clone().unwrap();
    assert_eq!(shown.digest, judged.prompt_digest);
    assert_eq!(shown.rules, approver::decide::prompt::text_digest());
    assert!(shown.text.contains("call back Monday"), "{}", shown.text);
    let hmac = world.service.hmac(facts, &input.arguments, &input.key_id);
    assert_eq!(only(&answer)["item"]["hmac"], hmac);
    assert!(!format!("{input:?}").contains("Monday"), "no log shows it");
}

async fn what_waits_records_why(world: World) {
    let token = world.gateway().await;
    let link = r#"{"contact":"C-1042","text":"https://collector.example/x"}"#;
    let body = request(&[
        call("c1", "note_add", link),
        call("c2", "wipe", "{}"),
        call("c3", "nowhere", "{}"),
    ]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    let rows = [
        ("novel_argument", true, Some(Class::Write), 1),
        ("destructive", false, Some(Class::Destructive), 0),
        ("tool_unknown", true, None, 0),
    ];
    for (index, (code, sentence, class, findings)) in rows.into_iter().enumerate() {
        let approval = stored(&world, &approval_id(&answer["results"][index])).await;
        let facts = &approval.facts;
        assert_eq!(approval.decision, None);
        assert_eq!(facts.pause_reason.as_deref(), Some(code));
        assert_eq!(facts.pause_sentence.is_some(), sentence, "{code}");
        assert_eq!((facts.class, facts.findings.len()), (class, findings), "{code}");
        assert_eq!(facts.judged, None, "{code}");
        let input = world.service.open_input(&approval).await.unwrap().unwrap();
        assert_eq!(input.prompt, None, "{code}");
        assert_eq!(input.evidence, [], "{code}");
    }
}

/// One call's bug costs that call: the others are judged and recorded.
async fn a_panic_in_the_judge_costs_its_own_call(world: World) {
    let token = world.gateway().await;
    world.judge(|prompt| {
        // The pending call stands last.
        let panics = prompt.rfind("panic") > prompt.rfind("Monday");
        if panics { Move::Panic } else { Move::say(APPROVES) }
    });
    let body = request(&[
        note("c1"),
        call("c2", "note_add", r#"{"contact":"C-1042","text":"panic"}"#),
        call("c3", "find", "{}"),
    ]);
    let answer = world.judge_calls(&token, "k1", &body).await.expect(200);
    assert_eq!(super::outcomes(&answer), ["approved", "pending", "execute"]);
    assert_eq!(answer["results"][1]["pause_reason"], "internal_error");
    assert_eq!(answer["results"][1]["item"]["policy_class"], "write");
    let listing = Listing { limit: 10, ..Listing::default() };
    assert_eq!(world.store.approvals(ORGANISATION, listing).await.unwrap().len(), 2);
}

/// The three escalations count what a detector or the judge said, and nothing else.
async fn escalations_end_automatic_approval_for_the_conversation(world: World) {
    let token = world.gateway().await;
    let gates = request(&[call("g1", "wipe", "{}"), call("g2", "nowhere", "{}")]);
    world.judge_calls(&token, "g", &gates).await.expect(200);
    let replies = [
        Move::say(super::ESCALATES),
        Move::say("not what was asked for"),
        Move::Fail(approver::decide::verdict::JudgeFailure::Connection),
        Move::say(APPROVES),
    ];
    let expected = ["judge_escalated", "judge_unreadable", "judge_error"];
    for (index, reply) in replies.into_iter().enumerate() {
        world.judge(move |_| reply.clone());
        let mut body = request(&[note(&format!("c{index}"))]);
        body["turn"]["id"] = json!(format!("resp_{index}"));
        let answer = world.judge_calls(&token, &format!("k{index}"), &body).await.expect(200);
        let pause = only(&answer).get("pause_reason").and_then(|code| code.as_str());
        assert_eq!(pause, expected.get(index).copied());
    }
    let link = r#"{"contact":"C-1042","text":"https://collector.example/x"}"#;
    let mut body = request(&[call("c8", "note_add", link)]);
    body["turn"]["id"] = json!("resp_8");
    let answer = world.judge_calls(&token, "k8", &body).await.expect(200);
    assert_eq!(only(&answer)["pause_reason"], "novel_argument");
    let mut body = request(&[note("c9")]);
    body["turn"]["id"] = json!("resp_9");
    let answer = world.judge_calls(&token, "k9", &body).await.expect(200);
    assert_eq!(only(&answer)["pause_reason"], "turn_limit");
}

on_both_stores!(
    an_automatic_approval_records_all_facts,
    what_waits_records_why,
    a_panic_in_the_judge_costs_its_own_call,
    escalations_end_automatic_approval_for_the_conversation,
);
