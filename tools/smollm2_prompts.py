"""The texts of make_smollm2_reference.py: ten prompts, short and of some 200 tokens, plain and as the chat template
puts them, prose, code and figures; and one text of more than 300 tokens."""

LIGHTHOUSE = (
    "The lighthouse on the northern point was built in 1871, after three ships had been lost in a single "
    "winter. Its lamp burned rape oil first, then paraffin, and in 1926 a cable was laid from the village. The "
    "keeper's log records the weather of every day, the ships that passed, and now and then a line about his "
    "garden, where he grew potatoes, kale and, with less luck, roses. When the light was made automatic in "
    "1984 the log was closed with a single sentence: \"All is in order; the wind is from the west.\" The tower "
    "now holds a small museum. Visitors climb 142 steps to the gallery, from which on a clear day one can see "
    "the islands, and with a good glass the ferry as it leaves the harbour. "
)
BREAD = (
    "To bake a plain loaf, weigh 500 g of flour, 340 g of water, 10 g of salt and 5 g of dry yeast. Mix the "
    "flour and the water and let them rest for half an hour; this makes the dough easier to work. Add the salt "
    "and the yeast, and knead for ten minutes, until a small piece can be stretched so thin that light shines "
    "through it. Cover the bowl and wait until the dough has doubled, which takes about ninety minutes in a "
    "warm kitchen and all night in a cold one. Shape it into a ball, let it rise again on a floured cloth, and "
    "heat the oven to 240 degrees with an iron pot inside. Turn the loaf into the pot, cut it once across, put "
    "the lid on, and bake for thirty minutes; then take the lid off and bake until the crust is brown. "
)
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"


def chat(question):
    return f"{SYSTEM}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "In 1969, 3 men flew 384,400 km to the moon. In 2024",
    "Der Fluss fließt durch das Tal, und über ihm",
    chat("Why is the sky blue?"),
    chat("Write a short poem about rain."),
    chat("List three uses of a paper clip."),
    LIGHTHOUSE + "Summary:",
    BREAD + "The most common mistakes are",
]
LONG_TEXT = LIGHTHOUSE + BREAD + LIGHTHOUSE
