"""The server that most tests share: four slots of 20,000 tokens."""
import openai
import pytest

from serverlib import Server


@pytest.fixture(scope="session")
def server():
    s = Server("--parallel", 4, "-c", 4 * 20000)
    yield s
    assert s.stop() == 0


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", timeout=30, max_retries=0)
