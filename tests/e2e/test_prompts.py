"""The official Python client lists the prompts and gets their texts."""

from mcp import Client

INVALID_PARAMS = -32602
EXPECTED_ARGUMENTS = {
    "explore_topic": {"topic": True, "tag": False},
    "author_deep_dive": {"author": True},
    "compare_sources": {"first_source": True, "second_source": True, "question": False},
    "weekly_review": {"period": False},
}
"""The arguments of each prompt in order, and whether they are required."""


async def test_prompts_are_listed_and_are_messages_of_the_user(client: Client) -> None:
    prompts = (await client.list_prompts()).prompts
    assert {
        prompt.name: {argument.name: argument.required for argument in prompt.arguments or []}
        for prompt in prompts
    } == EXPECTED_ARGUMENTS
    for prompt in prompts:
        assert prompt.title
        required = [argument.name for argument in prompt.arguments or [] if argument.required]
        shown = await client.get_prompt(prompt.name, dict.fromkeys(required, "Käse 🧀"))
        [message] = shown.messages
        assert message.role == "user"
        assert shown.description == prompt.description
        text = message.content.model_dump()["text"]
        assert text.count('"Käse 🧀"') >= len(required)
