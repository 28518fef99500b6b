"""Networks from trained models: ONNX files and state dicts to layers, parameters and figures."""
