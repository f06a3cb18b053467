//! Two replicas on one store: counts and keys are the store's, never a process's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use approver::decide::verdict::{Reply, Tokens};
use approver::judge::scripted::Move;
use serde_json::{Value, json};

use super::super::on_both_stores;
use super::super::world::World;
use super::retries::judged_once;
use super::{APPROVES, call, outcomes, request};

async fn duplicates_over_two_replicas_ask_once(world: World) {
    let token = world.gateway().await;
    let replica = world.replica().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    world.judge(move |_| {
        count.fetch_add(1, SeqCst);
        let (text, model) = (APPROVES.to_owned(), "scripted".to_owned());
        let reply = Reply { text, model, tokens: Tokens::default() };
        Move::AnswerAfter(Duration::from_millis(400), reply)
    });
    judged_once(&[&world, &replica], &token, &asked).await;
}

/// Requests of one turn, half of them on each replica at the same time; all results.
async fn at_once(world: &World, token: &str, requests: Vec<Value>) -> Vec<Value> {
    let replica = world.replica().await;
    let sent = requests.iter().enumerate().map(|(index, body)| {
        let world = if index % 2 == 0 { world } else { &replica };
        async move { world.judge_calls(token, &format!("k{index}"), body).await.expect(200) }
    });
    let answers = futures::future::join_all(sent).await;
    answers.iter().flat_map(|answer| answer["results"].as_array().unwrap().clone()).collect()
}

async fn the_sandbox_allowance_is_the_turns(world: World) {
    let token = world.gateway().await;
    let bash = |id: String, seconds: u32| {
        let mut bash = call(&id, "Bash", "{}");
        bash["timeout_seconds"] = json!(seconds);
        bash
    };
    // 10 requests of 3 calls of a second each: 24 may run.
    let requests: Vec<Value> = (0..10)
        .map(|number| {
            let calls: Vec<Value> =
                (0..3).map(|index| bash(format!("c{number}_{index}"), 1)).collect();
            request(&calls)
        })
        .collect();
    let results = at_once(&world, &token, requests).await;
    let ran = results.iter().filter(|result| result["outcome"] == "execute").count();
    assert_eq!(ran, 24);
    for result in &results {
        if result["outcome"] == "execute" {
            assert_eq!(result["approval_route"], "sandbox_offline");
            assert_eq!(result["timeout_seconds"], 1);
        } else {
            assert_eq!(result["pause_reason"], "sandbox_allowance");
            assert!(result["item"]["decided_by"].is_null());
        }
    }
    // Another turn has another allowance, of 1,800 seconds: 120 s where the call names none.
    let mut calls: Vec<Value> = (0..2).map(|index| bash(format!("d{index}"), 850)).collect();
    calls.push(call("d2", "Bash", "{}"));
    calls.push(bash("d3".to_owned(), 100));
    let mut body = request(&calls);
    body["turn"]["id"] = json!("resp_2");
    let answer = world.judge_calls(&token, "other", &body).await.expect(200);
    assert_eq!(outcomes(&answer), ["execute", "execute", "pending", "execute"]);
}

async fn the_judges_calls_are_the_turns(world: World) {
    let token = world.gateway().await;
    world.judge(|_| {
        Move::say(
            r#"{"soft_deny":[],"basis":[{"source":"user","index":1,"quote":"Note on C-1042: call back Monday","covers":[0,1]}],"unsupported_arguments":[],"reason":"Asked for.","decision":"approve"}"#,
        )
    });
    let requests: Vec<Value> = (0..10)
        .map(|number| {
            let calls: Vec<Value> = (0..2)
                .map(|index| {
                    let arguments = format!(r#"{{"text":"C-1042 {number} {index}"}}"#);
                    call(&format!("c{number}_{index}"), "note_add", &arguments)
                })
                .collect();
            request(&calls)
        })
        .collect();
    let results = at_once(&world, &token, requests).await;
    let approved = results.iter().filter(|result| result["outcome"] == "approved").count();
    assert_eq!(approved, 16);
    let limited = results.iter().filter(|result| result["pause_reason"] == "turn_limit").count();
    assert_eq!(limited, 4);
    // What a request reserved and did not use is there for the next one.
    let mut first = request(&[call("e1", "wipe", "{}"), call("e2", "note_add", "{}")]);
    first["turn"]["id"] = json!("resp_2");
    first["calls"][1]["arguments"] = json!(r#"{"text":"https://collector.example/x"}"#);
    world.judge_calls(&token, "e", &first).await.expect(200);
    let calls: Vec<Value> = (0..16)
        .map(|index| {
            call(&format!("f{index}"), "note_add", &format!(r#"{{"text":"C-1042 f{index}"}}"#))
        })
        .collect();
    let mut body = request(&calls);
    body["turn"]["id"] = json!("resp_2");
    let answer = world.judge_calls(&token, "f", &body).await.expect(200);
    assert_eq!(outcomes(&answer), vec!["approved"; 16]);
}

on_both_stores!(
    duplicates_over_two_replicas_ask_once,
    the_sandbox_allowance_is_the_turns,
    the_judges_calls_are_the_turns,
);
