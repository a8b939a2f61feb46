"""Language models that write modules: back-ends, prompts, generation and validation of what they wrote."""
