use serde_json::Value;

use super::*;

fn all() -> Vec<Problem> {
    vec![
        Problem::MissingKey,
        Problem::InvalidKey("The key is empty.".into()),
        Problem::KeyReused,
        Problem::InProgress {
            retry_after: Duration::from_secs(30),
        },
        Problem::OutcomeUnknown { settles: false },
        Problem::OutcomeUnknown { settles: true },
        Problem::AnswerNotKept {
            status: StatusCode::CREATED,
            location: Some(HeaderValue::from_static("/payments/1")),
        },
        Problem::Expired,
        Problem::BodyTooLarge { limit: 8 },
        Problem::TooManyClaims,
        Problem::StoreUnavailable,
        Problem::UpstreamUnreachable,
        Problem::UpstreamFailed,
        Problem::UnidentifiedCaller {
            why: "Who asks?".into(),
            challenge: Some("Bearer"),
        },
        Problem::UnstableCredential,
        Problem::UpgradeRefused,
        Problem::MethodRefused,
        Problem::NoSuchOperation,
        Problem::RequestCut,
        Problem::InvalidRequest("Two lengths.".into()),
        Problem::TargetTooLong,
        Problem::HeadTooLarge,
        Problem::MissingFields("The request has no /order_id.".into()),
        Problem::OverQuota(Box::new(Over::running())),
    ]
}

fn told(problem: &Problem, profile: Profile) -> (Response<Bytes>, Value) {
    let media = Media::of(&HeaderMap::new());
    let response = problem.answer(&Naming::default(), profile, media);
    let body = serde_json::from_slice(response.body()).unwrap();
    (response, body)
}

#[test]
fn every_problem_has_a_body_that_all_clients_survive() {
    for problem in all() {
        let (response, body) = told(&problem, Profile::Ietf);
        assert_eq!(body["status"], response.status().as_u16(), "{body}");
        assert_eq!(
            body["type"],
            format!("urn:onceward:problem:{}", problem.name())
        );
        assert!(!body["title"].as_str().unwrap().is_empty(), "{body}");
        assert!(body["instance"].as_str().unwrap().starts_with("urn:uuid:"));
        assert_eq!(body["error"]["code"], problem.name());
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        // One SDK crashes on a string here.
        assert!(body.get("detail").is_none(), "{body}");
    }
}

#[test]
fn retry_after_stands_on_retryable_answers_alone() {
    for problem in all() {
        let (response, body) = told(&problem, Profile::Ietf);
        let headers = response.headers();
        let retryable = body["retryable"].as_bool().unwrap();
        assert_eq!(
            headers.contains_key(header::RETRY_AFTER),
            retryable,
            "{body}"
        );
        assert_eq!(headers[X_SHOULD_RETRY], retryable.to_string());
        assert_eq!(headers[STRIPE_SHOULD_RETRY], retryable.to_string());
    }
}

#[test]
fn every_problem_has_a_page() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/problems/");
    for problem in all() {
        let page = format!("{pages}{}.md", problem.name());
        assert!(std::fs::exists(&page).unwrap(), "{page} is missing");
    }
}

#[test]
fn a_reused_key_has_the_status_of_its_profile() {
    for (profile, status) in [
        (Profile::Ietf, 422),
        (Profile::IetfStrict, 422),
        (Profile::SuccessOnly, 422),
        (Profile::Stripe, 400),
        (Profile::Oasis, 400),
    ] {
        let (response, body) = told(&Problem::KeyReused, profile);
        assert_eq!(response.status(), status);
        assert_eq!(body["error"]["type"], "idempotency_error");
    }
    assert_eq!(told(&Problem::Expired, Profile::Ietf).0.status(), 410);
    assert_eq!(told(&Problem::Expired, Profile::Oasis).0.status(), 412);
}

#[test]
fn a_problem_names_what_its_callers_need() {
    let (response, body) = told(&all()[6], Profile::Ietf);
    assert_eq!(body["original_status"], 201);
    assert_eq!(body["location"], "/payments/1");
    assert_eq!(response.headers()[header::LOCATION], "/payments/1");
    let (response, _) = told(&all()[13], Profile::Oasis);
    assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
    assert_eq!(response.headers()[REPEATABILITY_RESULT], "rejected");
}

#[test]
fn callers_that_ask_for_plain_json_get_it() {
    for (accept, media_type) in [
        (None, "application/problem+json"),
        (Some("*/*"), "application/problem+json"),
        (Some("application/json"), "application/json"),
        (
            Some("text/html, Application/JSON;q=0.9"),
            "application/json",
        ),
        (
            Some("application/json, application/problem+json"),
            "application/problem+json",
        ),
    ] {
        let mut request = HeaderMap::new();
        if let Some(accept) = accept {
            request.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        assert_eq!(Media::of(&request), Media(media_type), "{accept:?}");
    }
}
