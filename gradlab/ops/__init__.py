"""The ops: tensors in, tensors out. TensorFlow and NumPy are all they import."""
